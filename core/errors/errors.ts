/**
 * Errors that the agent API throws to user code, and errors that discard an agent in memory. Each
 * message says what happened, to what, and what to do next. Thrown by `core/agent` and `core/turn`.
 */
import * as Data from "effect/Data";
import { messageOf } from "./thrown.ts";

/** `sql` failed. `query` is the text with `?` for each value; `cause` is SQLite's own error. */
export class SqlError extends Error {
  override readonly name = "SqlError";
  /** The statement, with `?` for each value. */
  readonly query: string;

  constructor(query: string, cause: unknown) {
    super(`SQL query failed: ${messageOf(cause)}`, { cause });
    this.query = query;
  }
}

/** `setState` in the context of a readonly connection (`protocol.md` §2.1 fixes the text). */
export class ReadonlyConnection extends Error {
  override readonly name = "ReadonlyConnection";
  constructor() {
    super("Connection is readonly");
  }
}

const sizeOf = (bytes: number): string =>
  bytes < 2 ** 20 ? `${bytes} bytes` : `${Math.round((bytes / 2 ** 20) * 10) / 10} MiB`;

/** `setState` of more than `static options.stateBytesMax`. Nothing has changed. */
export class StateTooLarge extends Data.TaggedError("StateTooLarge")<{
  /** Size of the refused state as JSON. */
  readonly bytes: number;
  /** The limit. */
  readonly bytesMax: number;
}> {
  override get message(): string {
    const { bytes, bytesMax } = this;
    return `the state was not changed: it would be ${sizeOf(bytes)} of JSON, and the limit is ${sizeOf(bytesMax)} (stateBytesMax of the class's options, or the host's --state-bytes-max). Keep large data in SQL`;
  }
}

/** SQL past `static options.commitBytesMax`, as the cause of a `SqlError`. It changed nothing. */
export class CommitTooLarge extends Data.TaggedError("CommitTooLarge")<{
  /** The limit. */
  readonly bytesMax: number;
}> {
  override get message(): string {
    return `the statement changed nothing, because more than ${sizeOf(this.bytesMax)} would be uncommitted (commitBytesMax of the class's options, or the host's --commit-bytes-max). Write in parts, with await this.ctx.storage.sync() between them`;
  }
}

/** The agent wrote more than `static options.journalBytesPerMinute`. Nothing has changed. */
export class JournalRateExceeded extends Data.TaggedError("JournalRateExceeded")<{
  /** The limit of one minute. */
  readonly bytesMax: number;
  /** Milliseconds after which a write can succeed. */
  readonly retryAfterMs: number;
}> {
  override get message(): string {
    return `nothing was written: the agent has used up its ${sizeOf(this.bytesMax)} of journal a minute (journalBytesPerMinute of the class's options, or the host's --journal-bytes-per-minute). Try again in ${Math.ceil(this.retryAfterMs / 1000)} s`;
  }
}

/**
 * The agent has as many as it may of what the turn asked for one more of. Nothing has changed. From
 * `sql` it is the cause of a `SqlError`.
 */
export class CeilingReached extends Data.TaggedError("CeilingReached")<{
  /** The option of the class that sets it: `queueMax`, … */
  readonly option: string;
  /** The limit. */
  readonly max: number;
  /** What there is too much of, for people. */
  readonly of: string;
  readonly advice: string;
}> {
  override get message(): string {
    const flag = this.option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    return `an agent can have at most ${this.max} ${this.of} (${this.option} of the class's options, or the host's --${flag}); nothing was changed. ${this.advice}`;
  }
}

/**
 * The turn did not end within `static options.turnSeconds` and was given up: its attempt has failed
 * with this error, its signal has aborted, and what its code still writes is refused with it.
 */
export class TurnTimedOut extends Data.TaggedError("TurnTimedOut")<{
  /** The limit. */
  readonly seconds: number;
}> {
  override get message(): string {
    return `the turn did not end within ${this.seconds} s and was given up; nothing that it does afterwards is stored (turnSeconds of the class's options, or the host's --turn-seconds). Pass getCurrentAgent().signal to what it waits for, or do long work in the queue, a workflow or a fiber`;
  }
}

/**
 * The server closed a client's connection: a message was too large (1009), or the client read too
 * slowly (1013). Passed to `onError(connection, error)` before `onClose`.
 */
export class ConnectionFailed extends Data.TaggedError("ConnectionFailed")<{
  /** The WebSocket close code. */
  readonly code: number;
  /** The close reason. */
  readonly reason: string;
}> {
  override get message(): string {
    return `The connection was closed with ${this.code}: ${this.reason}`;
  }
}

/**
 * The agent in memory was discarded: its host lost the shard, or an append was refused. What the
 * turn wrote since the last commit is gone; the new owner continues from the journal.
 */
export class AgentDiscarded extends Data.TaggedError("AgentDiscarded")<object> {
  override get message(): string {
    return "The agent moved to another host while this was running; unstored writes of the turn are lost";
  }
}

/** As `AgentDiscarded`, while a call was running: the effects of the call may be stored. */
export class CallInterrupted extends AgentDiscarded {}

/** As `CallInterrupted`: the process that an isolated agent has to itself ended with the call. */
export class CallEndedProcess extends CallInterrupted {}

/** A write after `destroy()`. The next access to the name starts a new agent. */
export class AgentDestroyed extends Data.TaggedError("AgentDestroyed")<object> {
  override get message(): string {
    return "The agent was destroyed: nothing can be written any more";
  }
}

/** `ctx.abort()`, or a defect while committing. An immediate retry would end the same way. */
export class AgentAborted extends Data.TaggedError("AgentAborted")<{ readonly reason: string }> {
  override get message(): string {
    return `The agent was aborted: ${this.reason}`;
  }
}
