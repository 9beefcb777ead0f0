/** The dead letters of a `MemoryBroker`, in stored order. */
import type { StoredDeadLetter } from "../../core/dead/DeadLetters.ts";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";

/** As a nats-server recognizes the ids of messages. */
const RECOGNIZED_MS = 120_000;

export class DeadLetterStore {
  private readonly letters = new Map<Sequence, StoredDeadLetter>();
  private lastSeq = 0;
  /** When the letter of each death was stored, by agent and death, oldest first. */
  private readonly deaths = new Map<string, number>();

  put(id: AgentId, data: Uint8Array): void {
    const seq = ++this.lastSeq as Sequence;
    this.letters.set(seq, { seq, id, data: data.slice() });
  }

  /** Whether no letter of this death was stored lately. The caller stores one if so. */
  isFirst(id: AgentId, death: string, nowMs: number): boolean {
    for (const [known, atMs] of this.deaths) {
      if (nowMs - atMs < RECOGNIZED_MS) break;
      this.deaths.delete(known);
    }
    const key = JSON.stringify([addressKey(id), death]);
    if (this.deaths.has(key)) return false;
    this.deaths.set(key, nowMs);
    return true;
  }

  get(seq: Sequence): StoredDeadLetter | undefined {
    return this.letters.get(seq);
  }

  /** Returns false when there is no such letter. */
  remove(seq: Sequence): boolean {
    return this.letters.delete(seq);
  }

  get count(): number {
    return this.letters.size;
  }

  /** Oldest first; a copy of the list. */
  all(): readonly StoredDeadLetter[] {
    return [...this.letters.values()];
  }
}
