/**
 * One commit as a journal event: the frame to append, and its head as `applyEvent` takes it.
 *
 * A hot path, so the JSON is put together by hand: a state's text is spliced in as it is, not
 * parsed and written again. It must equal `JSON.stringify` of the head; a test checks that. For the
 * same reason the head that the committer applies has no changes of state: the committer has the
 * resulting text.
 */
import type { Epoch } from "../../schemas/Address.ts";
import { encodeFrameJson } from "../../schemas/Frame.ts";
import {
  encodeEvent,
  type Cause,
  type JournalHead,
  type StepAgain,
  type StepRecord,
  type StepRequest,
} from "../../schemas/JournalEvent.ts";
import type { AgentImage } from "./AgentImage.ts";
import { diffState, isSplice, type StateText } from "./stateChange.ts";
import type { RowChanges } from "./RowChanges.ts";

/** The outcome of a durable input once the turn's last commit is stored. */
export interface InputOutcome {
  /** Keys that are done with that commit; none when the input is to run again. */
  readonly done: ReadonlyArray<string>;
  readonly dead: boolean;
  readonly error: string | undefined;
}

/** The part of a turn that an event contains (`core/turn/Turn`). */
interface RecordedTurn {
  readonly cause: Cause;
  /** Its input is done once, across crashes. */
  readonly durable: boolean;
  readonly ended: boolean;
}

/** One turn's share of a commit. */
export interface CommitTurn {
  readonly turn: RecordedTurn;
  readonly state: { readonly text: string | undefined } | undefined;
  readonly sql: ReadonlyArray<string>;
  /** Set when a durable turn ended. */
  readonly outcome: InputOutcome | undefined;
  /** An earlier event has the whole cause. */
  readonly told: boolean;
  /** Steps that this commit stores the results of. */
  readonly steps?: ReadonlyArray<DoneStep> | undefined;
  /** `TurnRecord.again`, in the commit that ends the attempt. */
  readonly again?: ReadonlyArray<StepAgain> | undefined;
}

/** A step that is done, and the JSON text of its result. */
export interface DoneStep {
  readonly key: string;
  readonly text: string | undefined;
  /** The request of a recorded `fetch`. */
  readonly request?: StepRequest | undefined;
}

type Mutable<A> = { -readonly [K in keyof A]: A[K] };
type Told = Mutable<JournalHead["turns"][number]>;

export interface Commit {
  readonly data: Uint8Array;
  /** The head of a commit of turns, without their changes of state: `state` has those. */
  readonly head: JournalHead;
  /** JSON text after it; absent when it changes none. */
  readonly state?: StateText;
}

interface CommitParts {
  readonly image: AgentImage;
  readonly host: string;
  readonly epoch: Epoch;
  readonly timeMs: number;
  readonly eventId: string;
  readonly turns: ReadonlyArray<CommitTurn>;
  readonly frozen?: { readonly delta: Uint8Array; readonly pages: number } | undefined;
  readonly schedules?: RowChanges | undefined;
  readonly queue?: RowChanges | undefined;
  /** `JournalHead.part`. */
  readonly part?: boolean;
}

export function encodeCommit(options: CommitParts): Commit {
  const { image, frozen, schedules, queue } = options;
  const agent = [image.id.class, image.id.name] as const;
  const before: StateText = { text: image.state, isExact: image.stateIsExact };
  let state = before;
  const turns: Told[] = [];
  let json =
    `{"id":${JSON.stringify(options.eventId)},"agent":${JSON.stringify(agent)},"kind":"turns",` +
    `"host":${JSON.stringify(options.host)},"epoch":${options.epoch},"time":${options.timeMs},"turns":[`;
  for (const record of options.turns) {
    const written = writeTurn(record, state);
    if (turns.length > 0) json += ",";
    json += written.json;
    turns.push(written.told);
    ({ state } = written);
  }
  json += `],"after":${image.seq}`;
  const head: Mutable<JournalHead> = {
    id: options.eventId,
    agent,
    kind: "turns",
    host: options.host,
    epoch: options.epoch,
    time: options.timeMs,
    turns,
    after: image.seq,
  };
  if (frozen !== undefined) {
    head.pages = frozen.pages;
    json += `,"pages":${frozen.pages}`;
  }
  if (schedules !== undefined) {
    head.schedules = schedules;
    json += `,"schedules":${JSON.stringify(schedules)}`;
  }
  if (queue !== undefined) {
    head.queue = queue;
    json += `,"queue":${JSON.stringify(queue)}`;
  }
  if (options.part === true) {
    head.part = true;
    json += ',"part":true';
  }
  const data = encodeFrameJson(json + "}", frozen?.delta);
  return state === before ? { data, head } : { data, head, state };
}

interface WrittenTurn {
  readonly json: string;
  /** As `json`, without a change of state. */
  readonly told: Told;
  /** After the turn; the same object if the turn does not change it. */
  readonly state: StateText;
}

/** One turn in the event. Field by field, without spreads, because this is a hot path. */
function writeTurn(record: CommitTurn, before: StateText): WrittenTurn {
  const { turn, outcome } = record;
  const cause = record.told ? shortCause(turn.cause) : turn.cause;
  const told: Told = { cause };
  let json = `{"cause":${JSON.stringify(cause)}`;
  let state = before;
  if (record.state !== undefined) {
    const { text } = record.state;
    const change = diffState(before.text, text, before.isExact);
    json += `,"state":${change}`;
    state = { text, isExact: isSplice(change) };
  }
  if (record.sql.length > 0) {
    told.sql = record.sql;
    json += `,"sql":${JSON.stringify(record.sql)}`;
  }
  if (outcome !== undefined && outcome.done.length > 0) {
    told.done = outcome.done;
    json += `,"done":${JSON.stringify(outcome.done)}`;
  }
  if (turn.durable && !isOver(turn, outcome)) {
    told.begun = true;
    json += ',"begun":true';
  }
  if (outcome?.dead) {
    told.dead = true;
    json += ',"dead":true';
  }
  if (outcome?.error !== undefined) {
    told.error = outcome.error;
    json += `,"error":${JSON.stringify(outcome.error)}`;
  }
  if (record.steps !== undefined) {
    told.steps = record.steps.map(toldStep);
    json += `,"steps":[${record.steps.map(stepJson).join()}]`;
  }
  if (record.again !== undefined) {
    told.again = record.again;
    json += `,"again":${JSON.stringify(record.again)}`;
  }
  return { json: json + "}", told, state };
}

const toldStep = ({ key, text, request }: DoneStep): StepRecord => ({
  key,
  ...(text === undefined ? {} : { result: JSON.parse(text) as unknown }),
  ...(request === undefined ? {} : { request }),
});

const stepJson = ({ key, text, request }: DoneStep): string => {
  const result = text === undefined ? "" : `,"result":${text}`;
  const asked = request === undefined ? "" : `,"request":${JSON.stringify(request)}`;
  return `{"key":${JSON.stringify(key)}${result}${asked}}`;
};

/** The event that ends an agent's life, and completes the input of the turn that destroyed it. */
export function encodeDestroyed(options: {
  readonly image: AgentImage;
  readonly host: string;
  readonly epoch: Epoch;
  readonly timeMs: number;
  readonly eventId: string;
  /** `told`: an earlier event has the whole cause. */
  readonly turn: RecordedTurn & { readonly told: boolean };
}): Commit {
  const { image, turn } = options;
  const { id } = turn.cause;
  const head: JournalHead = {
    id: options.eventId,
    agent: [image.id.class, image.id.name],
    kind: "destroyed",
    host: options.host,
    epoch: options.epoch,
    time: options.timeMs,
    turns: [
      {
        cause: turn.told ? shortCause(turn.cause) : turn.cause,
        ...(turn.durable && id !== undefined ? { done: [id] } : {}),
      },
    ],
    after: image.seq,
  };
  return { data: encodeEvent(head), head };
}

/** The short form of a cause that an earlier event contains in full. */
const shortCause = (cause: Cause): Cause => ({
  kind: cause.kind,
  ...(cause.id === undefined ? {} : { id: cause.id }),
  ...(cause.seq === undefined ? {} : { seq: cause.seq }),
  ...(cause.attempt === undefined ? {} : { attempt: cause.attempt }),
  ...(cause.delivery === undefined ? {} : { delivery: cause.delivery }),
  ...(cause.traceparent === undefined ? {} : { traceparent: cause.traceparent }),
});

/** Its input will not run again by itself: it is done or dead. */
export const isOver = (turn: RecordedTurn, outcome: InputOutcome | undefined): boolean =>
  turn.ended && outcome !== undefined && (outcome.dead || outcome.done.length > 0);
