/**
 * The invariants of reliability that are visible from outside of an installation: over the answers
 * to providers and clients, what agents report, and what journals, disks and snapshots contain.
 * Each returns its violations, in words. `test/faults/rigChecks.test.ts` plants a violation of
 * each; those over journals alone are in `test/kit/checkers.ts`.
 */
import { addressKey } from "../../../schemas/Address.ts";
import type { Sequence } from "../../../schemas/Address.ts";
import { AgentImage } from "../../../core/journal/AgentImage.ts";
import { applyEvent } from "../../../core/journal/applyEvent.ts";
import {
  checkEpochs, checkExactlyOnce, checkOrder, checkSame, type History, type Picture, type Violations,
} from "../../kit/checkers.ts"; // prettier-ignore
import type { Note, Seen } from "./Clients.ts";
import type { SentOrder } from "./Providers.ts";
import type { Received } from "./Receiver.ts";
import { ATTEMPTS_MAX, type Run } from "./rigModule.ts";

/** One ledger at rest. */
export interface LedgerAtRest {
  readonly history: History;
  /** What it left in SQL, in order. */
  readonly keys: ReadonlyArray<string>;
  readonly state: { readonly count: number };
  /** When its schedules that are still armed are due. */
  readonly dueMs: ReadonlyArray<number>;
}

/** One run, read back when all is mended. */
export interface RigHistory {
  readonly orders: ReadonlyArray<SentOrder>;
  readonly ledgers: ReadonlyArray<LedgerAtRest>;
  readonly boards: ReadonlyArray<History>;
  readonly pictures: ReadonlyArray<{ readonly history: History; readonly pictures: ReadonlyArray<Picture> }>;
  readonly notes: ReadonlyArray<Note>;
  readonly clients: ReadonlyArray<{ readonly board: string; readonly seen: ReadonlyArray<ReadonlyArray<Seen>> }>;
  readonly runs: ReadonlyArray<Run>;
  readonly received: ReadonlyArray<Received>;
  /** Deaths, freezes and cuts of hosts: each may take an attempt with it that was never stored. */
  readonly hostTroubles: number;
  /** When it was read, by an unshifted clock. */
  readonly readMs: number;
} // prettier-ignore

/** I1: accepted ⇒ done once, or dead where it was poison; wrong signatures reach no agent (I10). */
export function checkInputs({ orders, ledgers }: RigHistory): Violations {
  const histories = ledgers.map(({ history }) => webhooksOf(history));
  const honest = orders.filter(({ forged }) => !forged);
  const wrong = [
    ...checkExactlyOnce(
      honest.map(({ order, statuses }) => ({
        agent: order.agent,
        key: `github:${order.id}`,
        // A poison that is done is wrong, whatever its answer was.
        statuses: order.do === "poison" ? [] : statuses,
      })),
      histories,
    ),
  ];
  const dead = new Set(histories.flatMap(deadIds));
  for (const { order, statuses } of honest)
    if (order.do === "poison") {
      if (statuses.some((status) => status === 202 || status === 500) && !dead.has(order.id))
        wrong.push(`poison ${order.id} was answered ${statuses.join()} and is not dead`);
    } else if (dead.has(order.id)) wrong.push(`${order.do} ${order.id} is among the dead letters`);
  for (const { order, statuses, forged } of orders)
    if (forged && statuses.some((status) => status >= 200 && status < 300))
      wrong.push(`forged ${order.id} was answered ${statuses.join()}`);
  return wrong;
}

/** I1, I5, I6 and the queue, as the agent sees them: marks of inputs, jobs and ticks. */
export function checkMarks({ orders, ledgers, readMs }: RigHistory): Violations {
  const wrong: string[] = [];
  const byId = new Map(orders.map((sent) => [sent.order.id, sent.order]));
  for (const { history, keys, state, dueMs } of ledgers) {
    const at = addressKey(history.id);
    const times = new Map<string, number>();
    for (const key of keys) times.set(key, (times.get(key) ?? 0) + 1);
    for (const [key, count] of times)
      if (count > 1) wrong.push(`${at}: ${key} left ${count} marks`);
    const done = new Set(history.events.flatMap((event) => doneOf(event, "webhook")));
    for (const key of done) if (!times.has(key)) wrong.push(`${at}: ${key} is done and left no mark`);
    for (const key of times.keys())
      if (key.startsWith("github:") && !done.has(key)) wrong.push(`${at}: ${key} left a mark and is not done`);
    const counted = keys.filter((key) => !key.startsWith("cancelled:")).length;
    if (state.count !== counted) wrong.push(`${at}: counts ${state.count}, and has ${counted} marks`);
    let armed = dueMs.filter((due) => due > readMs).length;
    const overdue = dueMs.length - armed;
    if (overdue > 0) wrong.push(`${at}: ${overdue} schedules are due and have not run`);
    const queued: string[] = [];
    for (const key of keys) {
      const order = byId.get(key.slice("github:".length));
      if (!key.startsWith("github:") || order === undefined) continue;
      if (order.do === "queue") queued.push(`job:${order.id}`);
      if (order.do === "schedule" && !times.has(`tick:${order.id}`) && !times.has(`cancelled:${order.id}`) && --armed < 0)
        wrong.push(`${at}: the schedule of ${order.id} is gone and has not run`);
    }
    const jobs = keys.filter((key) => key.startsWith("job:"));
    if (jobs.join() !== queued.join())
      wrong.push(`${at}: the queue was ${queued.join()}, and ran ${jobs.join()}`);
    keys.forEach((key, n) => {
      const id = key.slice("cancelled:".length);
      if (key.startsWith("cancelled:") && keys.indexOf(`tick:${id}`, n) >= 0)
        wrong.push(`${at}: tick:${id} ran after it was cancelled`);
    });
  }
  return wrong;
} // prettier-ignore

/**
 * I4: after every event a ledger's state is in step with the inputs and jobs that are done, and
 * with those of which a part had to be stored before their end (others waited for 50 ms), which the
 * event says, and which are done later.
 */
export function checkWhole({ ledgers }: RigHistory): Violations {
  const wrong: string[] = [];
  for (const { history } of ledgers) {
    const image = new AgentImage(history.id);
    const done = new Set<string>();
    const halves = new Set<string>();
    for (const event of history.events) {
      applyEvent(image, event.seq as Sequence, event.head);
      for (const { begun, state, cause } of event.head.turns)
        if (begun === true && state !== undefined) halves.add(cause.id ?? "");
      for (const key of doneOf(event, "webhook", "queue", "schedule")) {
        done.add(key);
        halves.delete(key);
      }
      const count = image.state === undefined ? 0 : (JSON.parse(image.state) as { count: number }).count;
      if (count !== done.size + halves.size)
        wrong.push(`${addressKey(history.id)} event ${event.seq}: the state counts ${count}, done are ${done.size}`);
    }
    for (const key of halves) wrong.push(`${addressKey(history.id)}: ${key} is stored in part and is not done`);
  }
  return wrong.slice(0, SHOWN_MAX);
} // prettier-ignore

/** The first says it; those after it follow from it. */
const SHOWN_MAX = 5;

/** I5: by the clock of the host that runs it, no tick is early. */
export function checkNeverEarly({ runs }: RigHistory): Violations {
  return runs.flatMap(({ key, atMs, dueMs }) =>
    dueMs !== undefined && atMs < dueMs ? [`${key} ran ${dueMs - atMs} ms early`] : [],
  );
}

/** I7: attempts are bounded across deaths. */
export function checkAttempts({ orders, runs, hostTroubles }: RigHistory): Violations {
  const poison = new Set(orders.filter(({ order }) => order.do === "poison").map(({ order }) => order.id)); // prettier-ignore
  const times = new Map<string, number>();
  for (const { key } of runs) times.set(key, (times.get(key) ?? 0) + 1);
  const wrong: string[] = [];
  for (const id of poison) {
    const count = times.get(`github:${id}`) ?? 0;
    if (count > ATTEMPTS_MAX + hostTroubles)
      wrong.push(`poison ${id} ran ${count} times, ${hostTroubles} hosts had trouble`);
  }
  return wrong;
}

/** I9: a state that a socket received is the journal's at that sequence, or within its commit. */
export function checkSeen({ boards, clients }: RigHistory): Violations {
  const wrong: string[] = [];
  const initial = JSON.stringify({ note: "", n: 0 });
  const states = new Map<string, ReturnType<typeof statesOf>>(
    boards.map((history) => [history.id.name, statesOf(history, initial)]),
  );
  for (const { board, seen } of clients)
    for (const connection of seen) {
      let before = 0;
      for (const { seq, state } of connection) {
        if (seq < before) wrong.push(`${board}: a socket was told ${seq} after ${before}`);
        before = seq;
        const text = JSON.stringify(state);
        if (!states.get(board)!(seq).includes(text))
          wrong.push(`${board}: a socket was told ${text} for ${seq}, which was never stored`);
      }
    }
  return wrong.slice(0, SHOWN_MAX);
}

/** I1 for calls, I10: an acknowledged note is stored once; a forbidden note nowhere. */
export function checkNotes({ boards, notes, hostTroubles }: RigHistory): Violations {
  const wrong: string[] = [];
  const written = new Map<string, number>();
  /** A board that was lost under load, by no fault of the rig, has another epoch. */
  const epochs = new Map<string, Set<number>>();
  for (const history of boards) {
    const image = new AgentImage(history.id);
    for (const { seq, head } of history.events)
      for (const turn of head.turns) {
        applyEvent(image, seq as Sequence, { ...head, turns: [turn] });
        image.seq = (seq - 1) as Sequence;
        if (turn.state === undefined) continue;
        const { note } = JSON.parse(image.state!) as { note: string };
        written.set(note, (written.get(note) ?? 0) + 1);
        epochs.set(note, (epochs.get(note) ?? new Set()).add(head.epoch));
      }
  }
  for (const { note, taken, forbidden, byHttp } of notes) {
    const count = written.get(note) ?? 0;
    const most = forbidden ? 0 : byHttp ? 1 : Math.max(1 + hostTroubles, epochs.get(note)?.size ?? 0); // prettier-ignore
    if (count > most) wrong.push(`${note} was written ${count} times`);
    if (taken && count === 0) wrong.push(`${note} was taken and is not stored`);
  }
  return wrong;
}

/** I13: everything that was sent belongs to a stored turn, and has one key. */
export function checkSent({ received, ledgers, orders }: RigHistory): Violations {
  const wrong: string[] = [];
  const done = new Set(ledgers.flatMap(({ keys }) => keys));
  const keyOf = new Map<string, string>();
  for (const { id, key } of received) {
    if (!done.has(`github:${id}`)) wrong.push(`${id} was sent, and its turn is not stored`);
    if ((keyOf.get(id) ?? key) !== key) wrong.push(`${id} was sent under ${keyOf.get(id)} and ${key}`); // prettier-ignore
    keyOf.set(id, key);
  }
  for (const { order } of orders)
    if (order.do === "send" && done.has(`github:${order.id}`) && !keyOf.has(order.id))
      wrong.push(`${order.id} is stored and was never sent`);
  return wrong;
}

/** I2, I3 of all agents. */
export function checkJournals({ ledgers, boards, pictures }: RigHistory): Violations {
  const histories = [...ledgers.map(({ history }) => history), ...boards];
  return [
    ...histories.flatMap(checkOrder),
    ...histories.flatMap(checkEpochs),
    ...pictures.flatMap(({ history, pictures: all }) => checkSame(history.id, all)),
  ];
}

export const CHECKS: Readonly<Record<string, (history: RigHistory) => Violations>> = {
  "I1, I10": checkInputs,
  "I1, I5, I6, queue": checkMarks,
  "I2, I3": checkJournals,
  I4: checkWhole,
  I5: checkNeverEarly,
  I7: checkAttempts,
  I9: checkSeen,
  "I1, I10 of calls": checkNotes,
  I13: checkSent,
};

type Event = History["events"][number];

const doneOf = ({ head }: Event, ...kinds: string[]): string[] =>
  head.turns.flatMap((turn) =>
    turn.dead === true ||
    !kinds.includes(turn.cause.kind) ||
    // One that was cancelled while it waited is done without a run.
    (turn.cause.kind === "schedule" && turn.state === undefined)
      ? []
      : (turn.done ?? []).filter((key) => !key.startsWith("webhook-out:")),
  );

/** Turns of inputs from outside; jobs' keys are nobody else's. */
const webhooksOf = ({ id, events }: History): History => ({
  id,
  events: events.map(({ seq, head }) => ({
    seq,
    head: { ...head, turns: head.turns.filter(({ cause }) => cause.kind === "webhook") },
  })),
});

const deadIds = ({ events }: History): string[] =>
  events.flatMap(({ head }) =>
    head.turns.flatMap((turn) =>
      turn.dead === true ? [(turn.cause.id ?? "").replace("github:", "")] : [],
    ),
  );

/** Texts of states that may go out at a sequence: the last event's up to it, and those before. */
function statesOf(history: History, initial: string): (seq: number) => ReadonlyArray<string> {
  const image = new AgentImage(history.id);
  const steps: Array<{ readonly seq: number; readonly texts: string[] }> = [
    { seq: 0, texts: [initial] },
  ];
  for (const { seq, head } of history.events) {
    const texts = [steps.at(-1)!.texts.at(-1)!];
    for (const turn of head.turns) {
      applyEvent(image, seq as Sequence, { ...head, turns: [turn] });
      image.seq = (seq - 1) as Sequence;
      if (image.state !== undefined) texts.push(image.state);
    }
    applyEvent(image, seq as Sequence, { ...head, turns: [] });
    steps.push({ seq, texts });
  }
  return (seq) => steps.findLast((step) => step.seq <= seq)!.texts;
}
