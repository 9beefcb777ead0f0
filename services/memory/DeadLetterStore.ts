/** The dead letters of a `MemoryBroker`, in stored order. */
import type { StoredDeadLetter } from "../../core/dead/DeadLetters.ts";
import type { AgentId, Sequence } from "../../schemas/Address.ts";

export class DeadLetterStore {
  private readonly letters = new Map<Sequence, StoredDeadLetter>();
  private lastSeq = 0;

  put(id: AgentId, data: Uint8Array): void {
    const seq = ++this.lastSeq as Sequence;
    this.letters.set(seq, { seq, id, data: data.slice() });
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
