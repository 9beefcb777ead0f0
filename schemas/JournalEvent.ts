/**
 * One event of an agent's journal: what came in, what changed, who did it. A `Frame` whose body is
 * the SQLite page delta (`PageDelta`), empty when no page changed. The journal alone rebuilds the
 * agent and shows a person why.
 *
 * Layout of the head: see `JournalHead`. One event is one commit. It usually holds one turn; turns
 * that ended while an earlier commit was in flight share the next event (group commit), in the
 * order of their last write. Applying an event means applying its turns in order, then its delta:
 * `core/journal/applyEvent.ts`, live and in replay.
 */
import * as Schema from "effect/Schema";
import { CorruptFrame, decodeFrame, encodeFrame } from "./Frame.ts";
import { plainCheck } from "./plainCheck.ts";

/** What began a turn. Bodies are kept as text where they are UTF-8, else as base64. */
export const Cause = Schema.Struct({
  kind: Schema.Literals([
    "webhook", "request", "connect", "message", "close", "rpc", "queue", "schedule", "mail",
    "workflow", "start", "background",
  ]), // prettier-ignore
  /** Dedup key of a durable input; request or connection id of another. */
  id: Schema.optionalKey(Schema.String),
  /** Inbox sequence of a durable input; absent for one that was never stored but by this event. */
  seq: Schema.optionalKey(Schema.Number),
  /** 1 for the first run; absent means 1. */
  attempt: Schema.optionalKey(Schema.Number),
  /** When the gateway took it, milliseconds since the epoch. */
  time: Schema.optionalKey(Schema.Number),
  provider: Schema.optionalKey(Schema.String),
  /** Of a webhook, as in its envelope (`InboxHead`). */
  route: Schema.optionalKey(Schema.String),
  verified: Schema.optionalKey(Schema.Boolean),
  type: Schema.optionalKey(Schema.String),
  method: Schema.optionalKey(Schema.String),
  url: Schema.optionalKey(Schema.String),
  headers: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  /** Of a webhook: the entity that `slug` made the agent's name of. The first is the one that the agent is made for. */
  entity: Schema.optionalKey(Schema.String),
  body: Schema.optionalKey(Schema.String),
  bodyBase64: Schema.optionalKey(Schema.String),
});
export type Cause = typeof Cause.Type;

/**
 * A change of `state`, against the JSON text of the state before:
 * `set` is the whole new value; `splice` keeps `[0]` UTF-16 units of the start and `[1]` of the end
 * of the old text and puts `[2]` between; `clear` makes it unset.
 */
export const StateChange = Schema.Union([
  Schema.Struct({ set: Schema.Unknown }),
  Schema.Struct({ splice: Schema.Tuple([Schema.Number, Schema.Number, Schema.String]) }),
  Schema.Struct({ clear: Schema.Literal(true) }),
]);
export type StateChange = typeof StateChange.Type;

export const TurnRecord = Schema.Struct({
  cause: Cause,
  state: Schema.optionalKey(StateChange),
  /** The SQL that wrote, for people; values not included. Replay never runs it. */
  sql: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Keys of inputs that are done with this event: they never run again. */
  done: Schema.optionalKey(Schema.Array(Schema.String)),
  /** The turn goes on: its input is begun, not done. */
  begun: Schema.optionalKey(Schema.Literal(true)),
  /** The input exhausted its attempts and lies in the dead letters: it does not run again by itself. */
  dead: Schema.optionalKey(Schema.Literal(true)),
  /** The turn ended by an error that the agent did not suppress; its message. */
  error: Schema.optionalKey(Schema.String),
});
export type TurnRecord = typeof TurnRecord.Type;

export const JournalHead = Schema.Struct({
  /** Unique for this event; tells a stored append whose ack was lost from somebody else's. */
  id: Schema.String,
  /** `[class, name]`: an event found under another subject is corrupt. */
  agent: Schema.Tuple([Schema.String, Schema.String]),
  kind: Schema.Literals(["turns", "claimed", "destroyed"]),
  host: Schema.String,
  /** The shard's epoch under which it was written; never decreases along a journal. */
  epoch: Schema.Number,
  /** When the host wrote it, milliseconds since the epoch. */
  time: Schema.Number,
  turns: Schema.Array(TurnRecord),
  /**
   * The agent's event before this one, by sequence; 0 for the first. A reader that has another before it misses
   * some. Absent in events of early releases, and in those that came from another journal.
   */
  after: Schema.optionalKey(Schema.Number),
  /** Present iff the body holds a page delta: the database's size after it, in pages. */
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
/** For replay: true where decoding would change nothing. */
export const isPlainJournalHead = plainCheck(JournalHead);

/** Throws `CorruptFrame` or `UnknownVersion`. */
export function decodeEvent(bytes: Uint8Array): JournalEvent {
  const frame = decodeFrame(bytes);
  if (isPlainJournalHead(frame.head)) return { head: frame.head, delta: frame.body };
  const head = decodeHead(frame.head);
  if (head._tag === "Failure")
    throw new CorruptFrame({ message: `not a journal event: ${String(head.failure)}` });
  return { head: head.success, delta: frame.body };
}
