/**
 * Finds the turns of inputs in a journal, which are webhooks unless others are asked for: where
 * each ended, where its last run began to write, and what its steps returned. Feeds `pastWebhooks`.
 *
 * 1. Of a turn with several attempts, the last run counts. What failed attempts wrote was there
 *    before it.
 * 2. A turn that committed in parts begins before the first of them. Undone parts don't count.
 */
import type { Cause, JournalHead, TurnRecord } from "../../schemas/JournalEvent.ts";
import type { RecordedStep } from "./Rerun.ts";

export interface PastTurn {
  readonly cause: Cause;
  /** Sequence of the first event with writes of its last run, which may be the event of its end. */
  readonly from: number;
  /** Attempts that had failed before. */
  readonly attempts: number;
  readonly steps: ReadonlyArray<RecordedStep>;
  /** Keys of the steps that another attempt would run again. */
  readonly again: ReadonlySet<string>;
}

/** An event in which such turns ended. */
export interface PastEnd {
  readonly seq: number;
  /** The smallest `from` of its turns. */
  readonly from: number;
  /** By the key of the input. */
  readonly turns: ReadonlyMap<string, PastTurn>;
  /** Kinds of other turns that wrote since `from`. */
  readonly others: ReadonlyArray<string>;
  /** Whether an attempt of any of them failed. */
  readonly failed: boolean;
}

interface Open {
  /** As in the first event of a run; later ones only name it. */
  cause: Cause;
  readonly steps: Map<string, RecordedStep>;
  again: ReadonlySet<string>;
  /** Undefined: its present run has not written. */
  from: number | undefined;
  /** Other turns that wrote since then: their kinds, by key. */
  readonly others: Map<string, string>;
}

export const isWebhook = ({ cause }: TurnRecord): boolean => cause.kind === "webhook";

/** True: the turn is done or dead with this event. */
export const isOver = ({ cause, done = [], dead }: TurnRecord): boolean =>
  dead === true || (cause.id !== undefined && done.includes(cause.id));

/** The fields of an event that are read. */
export interface PastRecords {
  readonly seq: number;
  readonly head: Pick<JournalHead, "pages" | "turns">;
}

/** `events`: from the agent's first one on, in order. Rejects as these do. */
export async function* pastTurns(events: AsyncIterable<PastRecords>): AsyncGenerator<PastEnd> {
  const turns = new InputTurns();
  for await (const event of events) {
    const end = turns.add(event);
    if (end !== undefined) yield end;
  }
}

/** The turns of one agent's inputs, as its events tell them. */
export class InputTurns {
  private readonly open = new Map<string, Open>();

  constructor(private readonly isAsked: (turn: TurnRecord) => boolean = isWebhook) {}

  /** No turn has begun that has not ended. */
  get isIdle(): boolean {
    return this.open.size === 0;
  }

  /** Those that have begun and not ended, by the key of the input. */
  get unfinished(): ReadonlyMap<string, Pick<PastTurn, "steps" | "again">> {
    const steps = (turn: Open) => ({ steps: [...turn.steps.values()], again: turn.again });
    return new Map(Array.from(this.open, ([key, turn]) => [key, steps(turn)]));
  }

  /** Takes the agent's next event. Undefined: no such turn ended with it. */
  add({ seq, head }: PastRecords): PastEnd | undefined {
    const { open } = this;
    const ended = new Map<string, PastTurn>();
    const others = new Map<string, string>();
    let failed = false;
    noteWriters(open, head);
    for (const record of head.turns) {
      const key = record.cause.id;
      if (key === undefined || !this.isAsked(record)) continue;
      const turn = open.get(key) ?? newTurn(record.cause);
      open.set(key, turn);
      follow(turn, seq, head, record);
      if (!isOver(record)) continue;
      open.delete(key);
      failed ||=
        record.dead === true || record.error !== undefined || (record.cause.attempt ?? 1) > 1;
      const { from = seq, cause, steps, again } = turn;
      const attempts = (record.cause.attempt ?? 1) - 1;
      ended.set(key, { cause, from, attempts, steps: [...steps.values()], again });
      for (const other of turn.others) others.set(...other);
    }
    if (ended.size === 0) return undefined;
    const from = Math.min(...Array.from(ended.values(), (turn) => turn.from));
    for (const key of ended.keys()) others.delete(key);
    return { seq, from, turns: ended, others: [...new Set(others.values())], failed };
  }
}

/** Notes, for each turn with open parts, which other turns write with this event. */
function noteWriters(open: ReadonlyMap<string, Open>, head: PastRecords["head"]): void {
  for (const [key, { from, others }] of open)
    if (from !== undefined)
      for (const record of head.turns) {
        const { kind, id = kind } = record.cause;
        if (id !== key && !isOver(record) && writes(head, record)) others.set(id, kind);
      }
}

const newTurn = (cause: Cause): Open => ({
  cause,
  steps: new Map(),
  again: new Set(),
  from: undefined,
  others: new Map(),
});

function follow(turn: Open, seq: number, head: PastRecords["head"], record: TurnRecord): void {
  const { cause, steps = [], again = [], error, undone } = record;
  turn.again = new Set(again.map(({ key }) => key));
  if (cause.time !== undefined) turn.cause = cause;
  for (const step of steps) turn.steps.set(step.key, step);
  if (undone === true) {
    turn.from = undefined;
    turn.others.clear();
  } else if (writes(head, record)) turn.from ??= seq;
  if (isOver(record)) {
    for (const { key, error: failure } of again)
      if (failure !== undefined) turn.steps.set(key, { key, error: failure });
  } else if (error !== undefined) {
    // Rule 1.
    for (const { key } of again) turn.steps.delete(key);
    turn.from = undefined;
    turn.others.clear();
  }
}

/** Pages are not attributed to turns: any turn of an event with pages may have written. */
const writes = ({ pages }: PastRecords["head"], { state, sql, steps }: TurnRecord): boolean =>
  state !== undefined || sql !== undefined || (pages !== undefined && steps === undefined);
