/**
 * Errors that the agent API throws to user code, and those that end an agent in memory. What users
 * see says what happened, to what, and what to do next. Thrown by the agent API and the runtime.
 */
import * as Data from "effect/Data";

/** What was thrown, as a line for a log or a record. */
export const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** `sql` failed. `query` is the text with `?` for each value; `cause` is SQLite's own error. */
export class SqlError extends Error {
  override readonly name = "SqlError";
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
  readonly bytes: number;
  readonly bytesMax: number;
}> {
  override get message(): string {
    const { bytes, bytesMax } = this;
    return `the state was not changed: it would be ${sizeOf(bytes)} of JSON, the limit is ${sizeOf(bytesMax)} (stateBytesMax of the class's options, or the host's --state-bytes-max). Keep what is large in SQL`;
  }
}

/**
 * SQL past `static options.commitBytesMax`, as the cause of a `SqlError`. The statement changed
 * nothing.
 */
export class CommitTooLarge extends Data.TaggedError("CommitTooLarge")<{
  readonly bytesMax: number;
}> {
  override get message(): string {
    return `more than ${sizeOf(this.bytesMax)} would be uncommitted (commitBytesMax of the class's options, or the host's --commit-bytes-max); the statement changed nothing. Write in parts, with await this.ctx.storage.sync() between them`;
  }
}

/** The agent wrote more than `static options.journalBytesPerMinute`. Nothing has changed. */
export class JournalRateExceeded extends Data.TaggedError("JournalRateExceeded")<{
  readonly bytesMax: number;
  readonly retryAfterMs: number;
}> {
  override get message(): string {
    return `nothing was written: the agent has used up its ${sizeOf(this.bytesMax)} of journal a minute (journalBytesPerMinute of the class's options, or the host's --journal-bytes-per-minute). Try again in ${Math.ceil(this.retryAfterMs / 1000)} s`;
  }
}

/**
 * The server ended a client's connection: too large a message (1009) or too slow a reader (1013).
 * Given to `onError(connection, error)`, before `onClose`.
 */
export class ConnectionFailed extends Data.TaggedError("ConnectionFailed")<{
  readonly code: number;
  readonly reason: string;
}> {
  override get message(): string {
    return `The connection was closed with ${this.code}: ${this.reason}`;
  }
}

/**
 * The agent in memory was thrown away: its host lost the shard, or an append was refused. What its
 * turn wrote since the last commit is gone; the new owner goes on from the journal.
 */
export class AgentDiscarded extends Data.TaggedError("AgentDiscarded")<object> {
  override get message(): string {
    return "The agent moved to another host while this was running";
  }
}

/** The same, while a call ran on it: what the call did may be stored. */
export class CallInterrupted extends AgentDiscarded {}

/** A write after `destroy()`: this life of the agent is over. The next access meets a fresh one. */
export class AgentDestroyed extends Data.TaggedError("AgentDestroyed")<object> {
  override get message(): string {
    return "The agent was destroyed: nothing can be written any more";
  }
}

/**
 * `ctx.abort()`, or a defect of ours while committing: running it again at once would end the same
 * way.
 */
export class AgentAborted extends Data.TaggedError("AgentAborted")<{ readonly reason: string }> {
  override get message(): string {
    return `The agent was aborted: ${this.reason}`;
  }
}
