/** A stream that is written and read while everything is replaced, by both releases. */
import type { AgentClient } from "../../services/client/AgentClient.ts";
import type { Violations } from "../kit/checkers.ts";
import { openClient } from "../membership/Callers.ts";
import { checkChunks } from "./rules.ts";
import type { Chunk } from "./storedModule.ts";

interface WriterStub {
  ask(id: string, chunks: number, chunkMs: number): void;
}
/** Written for longer than two hosts take to be replaced. */
const CHUNKS = 240;
const CHUNK_MS = 300;

export class Readers {
  private readonly client: AgentClient<WriterStub>;
  private readonly reads = new Map<string, { readonly chunks: Chunk[]; readonly ended: Promise<unknown> }>(); // prettier-ignore

  constructor(url: string) {
    this.client = openClient<WriterStub>(url, "writer", "writer");
  }

  async begin(id: string): Promise<void> {
    await this.client.call("ask", [id, CHUNKS, CHUNK_MS]);
    const chunks: Chunk[] = [];
    const ended = this.client.follow<Chunk>(id, { onChunk: (chunk) => chunks.push(chunk) });
    ended.catch(() => undefined); // awaited by `check`
    this.reads.set(id, { chunks, ended });
  }

  async check(): Promise<Violations> {
    const wrong: string[] = [];
    for (const [id, { chunks, ended }] of this.reads) {
      await ended;
      wrong.push(...checkChunks(id, CHUNKS, chunks));
    }
    return wrong;
  }

  close(): void {
    this.client.close();
  }
}
