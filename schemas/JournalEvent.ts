/**
 * One event of an agent's journal: the input, the change, and the host that wrote it. A `Frame`
 * whose body is the SQLite page delta (`PageDelta`), empty when no page changed. The journal alone
 * suffices to rebuild the agent and to explain its state to a person.
 *
 * `JournalHead` describes the head. One event is one commit. It usually contains one turn; turns
 * that ended while an earlier commit was in flight share the next event (group commit), in the
 * order of their last write. `core/journal/applyEvent.ts` applies an event, live and in replay: its
 * turns in order, then its delta.
 */
import * as Schema from "effect/Schema";
import { decoded, decodeFrame, encodeFrame } from "./Frame.ts";
import { plainCheck } from "./plainCheck.ts";

/** The input that began a turn. Bodies are stored as text where they are UTF-8, else as base64. */
export const Cause = Schema.Struct({
  kind: Schema.Literals([
    "webhook", "request", "connect", "message", "close", "rpc", "queue", "schedule", "mail",
    "workflow", "start", "background",
  ]), // prettier-ignore
  /** Dedup key of a durable input; request or connection id of any other. */
  id: Schema.optionalKey(Schema.String),
  /** Inbox sequence of a durable input; absent for an input that only this event stores. */
  seq: Schema.optionalKey(Schema.Number),
  /**
   * As in its envelope (`InboxHead`); of a copy that its provider sent again, the sequence of the
   * event with which the one before it died, its steps undone.
   */
  redrive: Schema.optionalKey(Schema.Number),
  /** Number of the run, from 1. Absent: 1. */
  attempt: Schema.optionalKey(Schema.Number),
  /** When the gateway accepted it, milliseconds since the epoch. */
  time: Schema.optionalKey(Schema.Number),
  provider: Schema.optionalKey(Schema.String),
  /** For a webhook, as in its envelope (`InboxHead`); so are the next fields. */
  route: Schema.optionalKey(Schema.String),
  verified: Schema.optionalKey(Schema.Boolean),
  type: Schema.optionalKey(Schema.String),
  method: Schema.optionalKey(Schema.String),
  url: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  /**
   * For a webhook: the entity as it was sent, where `slug` converted it to the agent's name. The
   * agent belongs to the first one.
   */
  entity: Schema.optionalKey(Schema.String),
  /** As in its envelope (`InboxHead`). Absent in events of older releases. */
  delivery: Schema.optionalKey(Schema.String),
  /** W3C trace context of the turn. Absent: it was not traced. */
  traceparent: Schema.optionalKey(Schema.String),
  body: Schema.optionalKey(Schema.String),
  bodyBase64: Schema.optionalKey(Schema.String),
});
export type Cause = typeof Cause.Type;

/**
 * A change of `state`, relative to the JSON text of the previous state. `set` is the whole new
 * value. `splice` keeps `[0]` UTF-16 units of the start and `[1]` of the end of the old text, with
 * `[2]` between them. `clear` unsets the state.
 */
export const StateChange = Schema.Union([
  Schema.Struct({ set: Schema.Unknown }),
  Schema.Struct({ splice: Schema.Tuple([Schema.Number, Schema.Number, Schema.String]) }),
  Schema.Struct({ clear: Schema.Literal(true) }),
]);
export type StateChange = typeof StateChange.Type;

/** A recorded request (`core/step/AgentFetch`), without credentials. Bodies as in `Cause`. */
export const StepRequest = Schema.Struct({
  method: Schema.String,
  url: Schema.String,
  headers: Schema.Record(Schema.String, Schema.String),
  body: Schema.optionalKey(Schema.String),
  bodyBase64: Schema.optionalKey(Schema.String),
});
export type StepRequest = typeof StepRequest.Type;

/** A step of a turn that is done (`core/step/AgentSteps`). */
export const StepRecord = Schema.Struct({
  /** How many steps of its name its turn had begun, and the name: `1:charge`. */
  key: Schema.String,
  /** Its result. Absent: `undefined`. */
  result: Schema.optionalKey(Schema.Unknown),
  /** The request. Absent: it was not recorded, or the step is not a `fetch`. */
  request: Schema.optionalKey(StepRequest),
});
export type StepRecord = typeof StepRecord.Type;

/** A step that the next attempt of its turn runs again. */
export const StepAgain = Schema.Struct({
  key: Schema.String,
  /** Name and message of the error that it failed with. Absent: its answer was no success. */
  error: Schema.optionalKey(Schema.String),
});
export type StepAgain = typeof StepAgain.Type;

export const TurnRecord = Schema.Struct({
  cause: Cause,
  state: Schema.optionalKey(StateChange),
  /** The SQL statements that wrote, without values. For people; replay never runs them. */
  sql: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Keys of inputs that this event completes. They never run again. */
  done: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The turn continues: its input is begun and not done. */
  begun: Schema.optionalKey(Schema.Literal(true)),
  /** The input exhausted its attempts: a dead letter. It runs again only when it is redriven. */
  dead: Schema.optionalKey(Schema.Literal(true)),
  /** Message of the error that ended the turn and that the agent did not suppress. */
  error: Schema.optionalKey(Schema.String),
  /**
   * Steps of the turn whose results this event stores; they are kept until the input is done or
   * dead. Empty: this run has done a step before, and this event stores none. Absent: it has done
   * none.
   */
  steps: Schema.optionalKey(Schema.Array(StepRecord)),
  /** Steps that this attempt asked for and the next one runs again. Absent: none. */
  again: Schema.optionalKey(Schema.Array(StepAgain)),
  /** The turn's host ended in mid-turn: this event undoes what earlier ones stored of it. */
  undone: Schema.optionalKey(Schema.Literal(true)),
  /**
   * An operator put the agent back: state, database and schedules are, with this event, what they
   * were after event `seq`, written at `time` (milliseconds since the epoch). Absent `seq`: that
   * event has another number here. Absent: it was not put back.
   */
  restored: Schema.optionalKey(
    Schema.Struct({ seq: Schema.optionalKey(Schema.Number), time: Schema.Number }),
  ),
});
export type TurnRecord = typeof TurnRecord.Type;

export const JournalHead = Schema.Struct({
  /** Unique for this event. Distinguishes an append whose ack was lost from another writer's. */
  id: Schema.String,
  /** `[class, name]`. An event under another subject is corrupt. */
  agent: Schema.Tuple([Schema.String, Schema.String]),
  kind: Schema.Literals(["turns", "claimed", "destroyed"]),
  host: Schema.String,
  /** The shard's epoch at the time of writing. Never decreases along a journal. */
  epoch: Schema.Number,
  /** When the host wrote it, milliseconds since the epoch. */
  time: Schema.Number,
  turns: Schema.Array(TurnRecord),
  /**
   * Sequence of the agent's previous event; 0 for the first. A reader whose previous event is
   * another one has missed some. Absent in events of early releases and in imported ones.
   */
  after: Schema.optionalKey(Schema.Number),
  /** Pages of the database after the page delta. Present if and only if the body is a delta. */
  pages: Schema.optionalKey(Schema.Number),
  /** Schedules and queue items that this event added (whole rows) and removed (ids). */
  schedules: Schema.optionalKey(
    Schema.Struct({
      put: Schema.optionalKey(Schema.Array(Schema.Unknown)),
      del: Schema.optionalKey(Schema.Array(Schema.String)),
    }),
  ),
  queue: Schema.optionalKey(
    Schema.Struct({
      put: Schema.optionalKey(Schema.Array(Schema.Unknown)),
      del: Schema.optionalKey(Schema.Array(Schema.String)),
    }),
  ),
  /**
   * Everything that this event changes was written by unfinished turns. If their host ends before
   * they do, and nothing else was written since, the next owner undoes the event
   * (`core/journal/OpenParts`). Absent: it stands.
   */
  part: Schema.optionalKey(Schema.Literal(true)),
});
export type JournalHead = typeof JournalHead.Type;

export interface JournalEvent {
  readonly head: JournalHead;
  /** The page delta; empty when no page changed. */
  readonly delta: Uint8Array;
}

export const encodeEvent = (head: JournalHead, delta?: Uint8Array): Uint8Array =>
  encodeFrame(head, delta);

const decodeHead = Schema.decodeUnknownResult(JournalHead);
/** For replay: true where decoding would return the value unchanged. */
export const isPlainJournalHead = plainCheck(JournalHead);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeEvent(bytes: Uint8Array): JournalEvent {
  const frame = decodeFrame(bytes);
  if (isPlainJournalHead(frame.head)) return { head: frame.head, delta: frame.body };
  return { head: decoded(decodeHead(frame.head), "a journal event"), delta: frame.body };
}
