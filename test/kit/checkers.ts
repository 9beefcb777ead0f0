/**
 * The invariants of reliability as functions over records: the answers to senders, the contents of
 * journals, the answers of agents. Each returns its violations in words; none means that it holds.
 * `test/faults/checkers.test.ts` plants a violation of each.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import { addressKey } from "../../schemas/Address.ts";
import { decodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import type { JournalShape } from "../../core/journal/Journal.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";

export type Violations = ReadonlyArray<string>;

/** One agent's journal as it was read back. */
export interface History {
  readonly id: AgentId;
  readonly events: ReadonlyArray<{ readonly seq: number; readonly head: JournalHead }>;
}

export async function historyOf(journal: JournalShape, id: AgentId): Promise<History> {
  const events: Array<History["events"][number]> = [];
  for await (const { seq, data } of journal.read(id, { fromSeq: 1 as Sequence }))
    events.push({ seq, head: decodeEvent(data).head });
  return { id, events };
}

/** One distinct input as its sender knows it. */
export interface SentInput {
  readonly agent: string;
  /** Its dedup key. */
  readonly key: string;
  /** Status of every answer that it got; 0 stands for none. */
  readonly statuses: ReadonlyArray<number>;
}

/** I1: what was answered 2xx is done once; nothing is done twice, and nothing that was not sent. */
export function checkExactlyOnce(
  sent: ReadonlyArray<SentInput>,
  histories: ReadonlyArray<History>,
): Violations {
  const wrong: string[] = [];
  const known = new Map(sent.map((input) => [`${input.agent} ${input.key}`, input]));
  const times = new Map<string, number>();
  for (const { id, events } of histories)
    for (const key of events.flatMap(doneKeys)) {
      const at = `${id.name} ${key}`;
      times.set(at, (times.get(at) ?? 0) + 1);
      if (!known.has(at)) wrong.push(`${at} was done and never sent`);
    }
  for (const [at, { statuses }] of known) {
    const count = times.get(at) ?? 0;
    if (count > 1) wrong.push(`${at} was done ${count} times`);
    const accepted = statuses.filter((status) => status >= 200 && status < 300);
    if (count === 0 && accepted.length > 0)
      wrong.push(`${at} was answered ${accepted.join(" and ")} and never done`);
  }
  return wrong;
}

/** I1, as the agent sees it: each key done by its journal left one mark; there are no others. */
export function checkApplied(history: History, marks: ReadonlyArray<string>): Violations {
  const done = history.events.flatMap(doneKeys);
  const left = new Map<string, number>();
  for (const mark of marks) left.set(mark, (left.get(mark) ?? 0) + 1);
  const wrong: string[] = [];
  for (const key of new Set(done))
    if (left.get(key) !== 1)
      wrong.push(`${addressKey(history.id)}: ${key} is applied ${left.get(key) ?? 0} times`);
  for (const mark of left.keys())
    if (!done.includes(mark))
      wrong.push(`${addressKey(history.id)}: ${mark} is applied and not done`);
  return wrong;
}

/** I2: sequences grow, and every event applies to the image before it. */
export function checkOrder(history: History): Violations {
  const image = new AgentImage(history.id);
  for (const { seq, head } of history.events)
    try {
      applyEvent(image, seq as Sequence, head);
    } catch (error) {
      return [`${addressKey(history.id)}: ${(error as Error).message}`];
    }
  return [];
}

/** I3: epochs never decrease along a journal, and one epoch is one host's. */
export function checkEpochs(history: History): Violations {
  const wrong: string[] = [];
  const hosts = new Map<number, string>();
  let before = 0;
  for (const { seq, head } of history.events) {
    const at = `${addressKey(history.id)} event ${seq}`;
    if (head.epoch < before) wrong.push(`${at}: epoch ${head.epoch} after ${before}`);
    before = Math.max(before, head.epoch);
    const host = hosts.get(head.epoch) ?? head.host;
    if (host !== head.host)
      wrong.push(`${at}: ${head.host} and ${host} both wrote in epoch ${head.epoch}`);
    hosts.set(head.epoch, host);
  }
  return wrong;
}

/**
 * I4: after every event the state, which counts, is in step with the inputs that are done: no event
 * holds the one without the other. For agents whose state has a `count` of inputs. `stalls`: the
 * machine may hold a turn up for longer than its writes gather; they are then stored before its
 * end, in an event that says so, and only the others are checked.
 */
export function checkAtomic(history: History, { stalls = false } = {}): Violations {
  const image = new AgentImage(history.id);
  const done = new Set<string>();
  const wrong: string[] = [];
  for (const event of history.events) {
    applyEvent(image, event.seq as Sequence, event.head);
    for (const key of doneKeys(event)) done.add(key);
    const count = countOf(image.state);
    if (stalls && image.parts !== undefined) continue;
    if (count !== done.size)
      wrong.push(
        `${addressKey(history.id)} event ${event.seq}: the state counts ${count}, done are ${done.size}`,
      );
  }
  return wrong;
}

/** An agent rebuilt in one way. */
export interface Picture {
  readonly way: string;
  readonly state: unknown;
  readonly image: Uint8Array;
}

/** I2: every way to rebuild an agent gives the same state and the same bytes. */
export function checkSame(id: AgentId, pictures: ReadonlyArray<Picture>): Violations {
  const [first, ...others] = pictures;
  if (first === undefined) return [];
  const wrong: string[] = [];
  for (const other of others) {
    const ways = `${addressKey(id)}: ${first.way} and ${other.way}`;
    if (JSON.stringify(first.state) !== JSON.stringify(other.state))
      wrong.push(
        `${ways} differ in state: ${JSON.stringify(first.state)} and ${JSON.stringify(other.state)}`,
      );
    if (Buffer.compare(first.image, other.image) !== 0)
      wrong.push(
        `${ways} differ in the database: ${first.image.length} and ${other.image.length} bytes`,
      );
  }
  return wrong;
}

/** Keys of inputs done with one event; dead ones are no effect. */
const doneKeys = ({ head }: History["events"][number]): string[] =>
  head.turns.flatMap((turn) => (turn.dead === true ? [] : [...(turn.done ?? [])]));

const countOf = (state: string | undefined): number =>
  state === undefined ? 0 : (JSON.parse(state) as { count: number }).count;
