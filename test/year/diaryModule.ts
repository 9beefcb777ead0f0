/** The module of the simulated year: an agent whose size is bounded and whose history is not. */
import { Agent } from "../../services/agent/index.ts";
import { body, github, webhook } from "../../services/webhooks/index.ts";

export const SECRET = "the year's secret";
/** Its last entries: what it keeps of them does not grow. */
const ENTRIES_KEPT = 20;

export interface Entry {
  readonly diary: string;
  readonly n: number;
  readonly text: string;
}

export class Diary extends Agent<Record<string, unknown>, { n: number; last: string }> {
  static override options = { history: { days: 30 } };
  override initialState = { n: 0, last: "" };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS entries (n INTEGER PRIMARY KEY, text TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    const { n, text } = (await request.json()) as Entry;
    this.sql`INSERT INTO entries VALUES (${n}, ${text})`;
    this.sql`DELETE FROM entries WHERE n <= ${n - ENTRIES_KEPT}`;
    this.setState({ n, last: text.slice(0, 40) });
    return new Response("written");
  }
}

export default {
  webhooks: [
    webhook("/diary", {
      agent: Diary,
      verify: github({ secret: { value: SECRET } }),
      entity: body("diary"),
    }),
  ],
};
