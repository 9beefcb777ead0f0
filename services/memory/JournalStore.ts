/**
 * The journals of a `MemoryBroker`: one list of events per agent. All share one sequence, as in a
 * stream.
 */
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
  private readonly journals = new Map<string, AgentJournal>();
  private readonly watchers = new Set<(stored: JournalEvent) => void>();
  private lastSeq = 0;

  constructor(private readonly time: TimeShape) {}

  /**
   * Returns the new event's sequence; undefined when the agent's last event is not `expectedSeq`.
   * `expectedSeq` 0 means that the agent has no event.
   */
  append(id: AgentId, data: Uint8Array, expectedSeq: Sequence): Sequence | undefined {
    if ((this.last(id)?.seq ?? 0) !== expectedSeq) return undefined;
    const key = addressKey(id);
    let journal = this.journals.get(key);
    if (journal === undefined) this.journals.set(key, (journal = { id, events: [] }));
    const seq = ++this.lastSeq as Sequence;
    // Copied, so that the caller's buffer can change.
    const event = { seq, storedMs: this.time.nowMs(), data: data.slice() };
    journal.events.push(event);
    for (const watcher of this.watchers) watcher({ id, event });
    return seq;
  }

  /** Calls `onStored` with each event as it is stored. The returned function ends the watch. */
  watch(onStored: (stored: JournalEvent) => void): () => void {
    this.watchers.add(onStored);
    return () => this.watchers.delete(onStored);
  }

  first(id: AgentId): StoredEvent | undefined {
    return this.journals.get(addressKey(id))?.events[0];
  }

  last(id: AgentId): StoredEvent | undefined {
    return this.journals.get(addressKey(id))?.events.at(-1);
  }

  /** Oldest first. */
  eventsOf(id: AgentId): readonly StoredEvent[] {
    return this.journals.get(addressKey(id))?.events ?? [];
  }

  /** Removes the agent's events before the sequence. Returns their number. */
  purge(id: AgentId, before: Sequence): number {
    const events = this.journals.get(addressKey(id))?.events ?? [];
    const kept = events.filter(({ seq }) => seq >= before);
    return events.splice(0, events.length, ...kept).length - kept.length;
  }

  /** Sequence of the last event that was ever stored. */
  get end(): number {
    return this.lastSeq;
  }

  /** The events of all agents, in stored order. */
  between(fromSeq: number, toSeq: number): readonly JournalEvent[] {
    return [...this.journals.values()]
      .flatMap(({ id, events }) => events.map((event) => ({ id, event })))
      .filter(({ event: { seq } }) => seq >= fromSeq && seq <= toSeq)
      .toSorted((a, b) => a.event.seq - b.event.seq);
  }

  entries(): readonly JournalEntry[] {
    return [...this.journals.values()].map(({ id, events }) => ({ id, events: events.length }));
  }
}
