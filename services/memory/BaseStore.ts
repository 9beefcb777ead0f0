/**
 * The bases of a `MemoryBroker` (`core/journal/Snapshots`): the last few of each agent, replaced by
 * compare-and-set. Revisions are never used twice, as in a stream.
 */
import { BASES_KEPT, type StoredBases } from "../../core/journal/Snapshots.ts";
import { addressKey, type AgentId } from "../../schemas/Address.ts";

interface Bases extends StoredBases {
  readonly copies: ReadonlyArray<Uint8Array>;
}

export class BaseStore {
  private readonly bases = new Map<string, Bases>();
  private lastRevision = 0;

  get(id: AgentId): Bases | undefined {
    return this.bases.get(addressKey(id));
  }

  /** Returns the new revision; undefined when the newest is not of `expected` (0: none). */
  put(id: AgentId, data: Uint8Array, expected: number): number | undefined {
    const before = this.get(id);
    if ((before?.revision ?? 0) !== expected) return undefined;
    const revision = ++this.lastRevision;
    // Copied, so that the caller's buffer can change.
    const copies = [data.slice(), ...(before?.copies ?? [])].slice(0, BASES_KEPT);
    this.bases.set(addressKey(id), { revision, copies });
    return revision;
  }

  /** Returns the number of removed bases. */
  remove(id: AgentId): number {
    const count = this.get(id)?.copies.length ?? 0;
    this.bases.delete(addressKey(id));
    return count;
  }

  /** All that is stored, by agent. */
  all(): ReadonlyArray<readonly [key: string, bases: StoredBases]> {
    return [...this.bases];
  }
}
