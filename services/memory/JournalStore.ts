/** The journals of a `MemoryBroker`: one list of events an agent, sequences over all of them as in one stream. */
import type { JournalEntry, StoredEvent } from "../../core/journal/Journal.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";

interface AgentJournal {
  readonly id: AgentId;
  readonly events: StoredEvent[];
}

export interface JournalEvent {
  readonly id: AgentId;
  readonly event: StoredEvent;
}

export class JournalStore {
  private readonly time: TimeShape;
  private readonly journals = new Map<string, AgentJournal>();
  private readonly watchers = new Set<(stored: JournalEvent) => void>();
  private lastSeq = 0;

  constructor(time: TimeShape) {
    this.time = time;
  }

  /** The new event's sequence, or undefined when the agent's last one is not `expectedSeq`. */
  append(id: AgentId, data: Uint8Array, expectedSeq: Sequence): Sequence | undefined {
    if ((this.last(id)?.seq ?? 0) !== expectedSeq) return undefined;
    const key = addressKey(id);
    let journal = this.journals.get(key);
    if (journal === undefined) this.journals.set(key, (journal = { id, events: [] }));
    const seq = ++this.lastSeq as Sequence;
    // A copy: what is stored does not change with the caller's buffer.
    const event = { seq, storedMs: this.time.nowMs(), data: data.slice() };
    journal.events.push(event);
    for (const watcher of this.watchers) watcher({ id, event });
    return seq;
  }

  /** Each event as it is stored; the returned function ends it. */
  watch(onStored: (stored: JournalEvent) => void): () => void {
    this.watchers.add(onStored);
    return () => this.watchers.delete(onStored);
  }

  last(id: AgentId): StoredEvent | undefined {
    return this.journals.get(addressKey(id))?.events.at(-1);
  }

  /** Oldest first. */
  eventsOf(id: AgentId): readonly StoredEvent[] {
    return this.journals.get(addressKey(id))?.events ?? [];
  }

  /** Removes the agent's events before this sequence; how many. */
  purge(id: AgentId, before: Sequence): number {
    const events = this.journals.get(addressKey(id))?.events ?? [];
    const kept = events.filter(({ seq }) => seq >= before);
    return events.splice(0, events.length, ...kept).length - kept.length;
  }

  entries(): readonly JournalEntry[] {
    return [...this.journals.values()].map(({ id, events }) => ({ id, events: events.length }));
  }
}
