/**
 * The port by which inputs run in memory on other code: a past event again, or inputs on a fork of
 * the agent as it is now. It receives what the agent was before them, the inputs, and the results
 * of their steps, and returns what the code makes of them. Nothing is stored, and nothing leaves
 * the process.
 *
 * Used by `agents rerun` and `--on-fork`; the adapter is `services/testing/rerunEvent`.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { StepRecord } from "../../schemas/JournalEvent.ts";
import type { ComparedAgent } from "./compareAgents.ts";

export interface PastEvent {
  readonly id: AgentId;
  /**
   * The event before the inputs, as it was stored, and a snapshot of the agent then; undefined: the
   * agent did not exist.
   */
  readonly before: { readonly event: Uint8Array; readonly snapshot: Uint8Array } | undefined;
  /** The inputs, in order. */
  readonly inputs: ReadonlyArray<PastInput>;
  /** What the clock shows when they begin. Absent: the time of the first input. */
  readonly startMs?: number;
}

/** A step of a past turn: done, or failed. */
export interface RecordedStep extends StepRecord {
  readonly error?: string;
}

export interface PastInput extends InboxEnvelope {
  /** Attempts of it that had failed before. */
  readonly attempts: number;
  /** The results of its steps, which return the same now. */
  readonly steps: ReadonlyArray<RecordedStep>;
}

export interface RerunSend {
  readonly kind: "webhook" | "fetch" | "email";
  readonly method: string;
  readonly url: string;
}

/** For people. */
export const sendLine = ({ kind, method, url }: RerunSend): string =>
  `would send: ${kind === "email" ? url : `${method} ${url}`}`;

export interface Rerun {
  /**
   * The agent when the last input was done, before anything that it queued or scheduled ran. If the
   * last input is a redrive of a job: the agent when that job was done.
   */
  readonly after: ComparedAgent;
  /** The agent once everything that it queued had run, too, to begin other inputs with. */
  readonly rest: () => Promise<Pick<PastEvent, "before"> & { readonly agent: ComparedAgent }>;
  /** Steps and requests that the past turns did not have (`RecordedTurn.differences`). */
  readonly steps: ReadonlyArray<string>;
  /** The error of each input's last attempt, as the journal would record it. */
  readonly errors: ReadonlyArray<string>;
  /** The intended output. Webhooks and mail count as sent, a `fetch` fails. */
  readonly sends: ReadonlyArray<RerunSend>;
  readonly close: () => Promise<void>;
}

/** Rejects with the code's own error if the agent can't be constructed. */
export type RerunEvent = (event: PastEvent) => Promise<Rerun>;
