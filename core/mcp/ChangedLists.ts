/**
 * Reads the lists of an MCP server again when it announces that they have changed: one reading at a
 * time, and at a bounded rate. Announced while the server is first listed, they are read after
 * that: what the first listing has read may be older.
 */
import { sleep } from "../time/sleep.ts";
import type { TimeShape } from "../time/Time.ts";
import type { McpConnection } from "./McpClients.ts";
import type { Offer } from "./readOffer.ts";
import type { McpServerState } from "./McpServerState.ts";

/** A server that keeps reporting changed lists is asked this often. */
const RELIST_MS = 1000;

interface ListedServer {
  readonly current: () => McpConnection | undefined;
  readonly state: () => McpServerState;
  readonly read: (connection: McpConnection) => Promise<Offer>;
  readonly changed: (offer: Offer) => void;
  readonly failed: (error: unknown) => void;
}

export class ChangedLists {
  private reading = false;
  private again = false;

  constructor(
    private readonly server: ListedServer,
    private readonly time: Pick<TimeShape, "after">,
  ) {}

  /** Resolves when all that was announced is read. Never rejects. */
  async announced(): Promise<void> {
    this.again = true;
    if (this.reading) return;
    this.reading = true;
    try {
      while (this.again && this.server.current() !== undefined) {
        if (this.server.state() !== "discovering" && !(await this.read())) return;
        await sleep(this.time, RELIST_MS);
      }
    } finally {
      this.reading = false;
    }
  }

  /** Returns false for a server that was left meanwhile, or is not in use. */
  private async read(): Promise<boolean> {
    const { server } = this;
    this.again = false;
    const connection = server.current()!;
    try {
      const offer = await server.read(connection);
      if (server.current() !== connection || server.state() !== "ready") return false;
      server.changed(offer);
    } catch (error) {
      server.failed(error);
    }
    return true;
  }
}
