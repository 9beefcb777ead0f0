/** The module of the memory test. SIGUSR2 collects garbage and writes its use to `MEMORY_FILE`. */
import { readdirSync, renameSync, writeFileSync } from "node:fs";
import { Agent } from "agents";

/** Every so many use SQL, as in an installation where few agents need it. */
const SQL_EVERY = 10;

export class Touched extends Agent<unknown, { readonly text: string }> {
  static override options = { hibernateAfterSeconds: 1 };

  override async onRequest(request: Request): Promise<Response> {
    const text = await request.text();
    this.setState({ text });
    if (Number(this.name) % SQL_EVERY === 0) {
      this.sql`CREATE TABLE IF NOT EXISTS touches (text TEXT)`;
      this.sql`INSERT INTO touches VALUES (${text})`;
    }
    return new Response("OK");
  }
}

const file = process.env["MEMORY_FILE"];
if (file !== undefined)
  process.on("SIGUSR2", () => {
    // Twice: finalizers of the first leave garbage for the second.
    globalThis.gc?.();
    globalThis.gc?.();
    const { heapUsed, rss, arrayBuffers, external } = process.memoryUsage();
    const descriptors = readdirSync("/proc/self/fd").length;
    const text = JSON.stringify({ heapUsed, rss, arrayBuffers, external, descriptors });
    writeFileSync(`${file}.part`, text);
    renameSync(`${file}.part`, file);
  });

export default {};
