/**
 * The module whose journals, snapshots and caches are damaged. For each input a keeper writes as
 * many bytes as the first word of its name says. Some therefore have events and snapshots that fit
 * into a message, and others have some in the blob store.
 */
import { Agent } from "agents";
import { body, github, webhook } from "agents/webhooks";

/** Bytes an input: `large` snapshots do not fit into a message, `huge` events neither. */
export const BYTES_OF = { small: 100, large: 2_000, huge: 70_000 } as const;
export type KeeperSize = keyof typeof BYTES_OF;

export class Keeper extends Agent<unknown, { readonly count: number; readonly last: string }> {
  static override options = { hibernateAfterSeconds: 1 };
  override initialState = { count: 0, last: "" };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS kept (n INTEGER PRIMARY KEY, id TEXT, noise BLOB)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    const { id } = (await request.json()) as { readonly id: string };
    const bytes = BYTES_OF[this.name.split("-")[0] as KeeperSize];
    this.setState({ count: this.state.count + 1, last: id });
    this.sql`INSERT INTO kept (id, noise) VALUES (${id}, randomblob(${bytes}))`;
    return new Response("OK");
  }
}

export default {
  webhooks: [
    webhook("/webhooks/github", {
      agent: Keeper,
      verify: github({ secret: "SECRET" }),
      entity: body("agent"),
    }),
  ],
};
