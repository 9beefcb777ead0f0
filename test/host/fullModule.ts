/** The module of the test of a full memory. SIGUSR2 collects garbage (`--expose-gc`). */
import { Agent } from "agents";

/** Some pages each, as the smallest real tables have. */
const TEXT = "x".repeat(20_000);

export class Kept extends Agent<unknown, { readonly touches: number }> {
  static override options = { hibernateAfterSeconds: 3600 };
  override initialState = { touches: 0 };

  override onRequest(): Response {
    this.sql`CREATE TABLE IF NOT EXISTS touches (n INTEGER PRIMARY KEY, text TEXT)`;
    this.sql`INSERT INTO touches (text) VALUES (${TEXT})`;
    const [row] = this.sql<{ touches: number }>`SELECT count(*) AS touches FROM touches`;
    this.setState({ touches: row!.touches });
    return new Response("OK");
  }
}

process.on("SIGUSR2", () => globalThis.gc?.());

export default {};
