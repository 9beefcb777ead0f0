/**
 * All agents of the journal, by class and name, for the console's pages of agents. Calls at one
 * time share a read.
 */
import type { JournalEntry } from "../../../core/journal/Journal.ts";
import type { TimeShape } from "../../../core/time/Time.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";

/** Pages of one list come from one read of the journal, unless a long time passes between them. */
const ENTRIES_KEPT_MS = 30_000;

interface Named {
  readonly class: string;
  readonly name: string;
}

/** By class, then by name. */
export const compareAgents = (a: Named, b: Named): number =>
  order(a.class, b.class) === 0 ? order(a.name, b.name) : order(a.class, b.class);
const order = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

interface AgentEntries {
  /** All agents, by class and name, read after this call. Calls that wait share one read. */
  readonly now: () => Promise<ReadonlyArray<JournalEntry>>;
  /** The last result, or `now` if that is old. For the next page of a list. */
  readonly lately: () => Promise<ReadonlyArray<JournalEntry>>;
}

export function agentEntries(
  { journal }: ReadPorts,
  time: Pick<TimeShape, "monotonicMs">,
): AgentEntries {
  let running: Promise<ReadonlyArray<JournalEntry>> | undefined;
  let next: Promise<ReadonlyArray<JournalEntry>> | undefined;
  let kept: { readonly list: ReadonlyArray<JournalEntry>; readonly atMs: number } | undefined;
  const read = async (): Promise<ReadonlyArray<JournalEntry>> => {
    const found: JournalEntry[] = [];
    for await (const entry of journal.list()) found.push(entry);
    const list = found.toSorted((a, b) => compareAgents(a.id, b.id));
    kept = { list, atMs: time.monotonicMs() };
    return list;
  };
  const start = (): Promise<ReadonlyArray<JournalEntry>> => {
    next = undefined;
    const reading = read().finally(() => {
      if (running === reading) running = undefined;
    });
    running = reading;
    return reading;
  };
  const now: AgentEntries["now"] = () =>
    running === undefined ? start() : (next ??= running.then(start, start));
  const lately: AgentEntries["lately"] = () =>
    kept !== undefined && time.monotonicMs() - kept.atMs < ENTRIES_KEPT_MS
      ? Promise.resolve(kept.list)
      : now();
  return { now, lately };
}
