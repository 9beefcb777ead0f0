/**
 * An agent in memory, for code that runs turns: the mailbox, jobs, schedules. `AgentWork` is the
 * view for code that runs inside turns. `ActiveAgent` implements both. A class that needs its agent
 * declares the members that it uses, most of them picked from these two, so that only
 * `core/runtime` knows the whole agent.
 */
import type { Cause } from "../../schemas/JournalEvent.ts";
import type { Connection } from "../connection/Connection.ts";
import type { AgentDatabase } from "../database/Databases.ts";
import type { AgentImage } from "../journal/AgentImage.ts";
import type { AgentWork } from "./AgentWork.ts";
import type { CeilingName } from "./Ceilings.ts";
import type { Committer } from "./Committer.ts";
import type { Turn, TurnContext } from "./Turn.ts";
import type { TurnEnd } from "./TurnEnd.ts";

export interface Undone {
  /** The failure, and which steps were undone or could not be. */
  readonly reason: string;
  /** Whether something was undone. If it is sent again, its steps have new idempotency keys. */
  readonly undone: boolean;
}

export interface AgentTurns extends Pick<
  AgentWork,
  "id" | "time" | "log" | "abort" | "waitUntil" | "emit"
> {
  /** What the journal says of the agent. */
  readonly image: AgentImage;
  readonly database: AgentDatabase;
  readonly committer: Committer;
  /** Wall clock: when the agent was activated. */
  readonly startedMs: number;
  /** True once the agent is inert: no output, no ack and no commit follows. */
  readonly discarded: boolean;
  /** The turn that the running code belongs to; code outside of any gets one of its own. */
  turn(): Turn;
  newTurn(cause: Cause, context?: TurnContext): Turn;
  /** Runs user code as a turn. Settles as `f` does, when the turn has ended. */
  run<A>(turn: Turn, f: () => A | Promise<A>): Promise<A>;
  /** Routes an error of user code to `onError`. True when `onError` returned: it is suppressed. */
  handleError(turn: Turn, error: unknown, of?: Connection): Promise<boolean>;
  /**
   * Undoes the steps of a turn that failed for good. Resolves to what the dead letter says about
   * it. Rejects with `AgentDiscarded`.
   */
  undo(turn: Turn, failure: string): Promise<Undone>;
  /**
   * Called before a write. Throws `AgentDestroyed`, `AgentDiscarded`, or `TurnTimedOut` if the
   * running code belongs to a turn that was given up.
   */
  assertRunning(): void;
  /** Rejects with `AgentDiscarded` once the agent is discarded. */
  unlessDiscarded(): Promise<void>;
  /** Resolves when a job may begin. Rejects with `AgentDiscarded`. */
  mayBegin(): Promise<void>;
  /** Resolves after `ms`. Rejects with `AgentDiscarded` when the agent was discarded meanwhile. */
  sleep(ms: number): Promise<void>;
  /** This agent's ceiling. Computed each time, since few agents come near one. */
  ceiling(name: CeilingName): number;
  /** Throws `AgentDiscarded`, or `StepWrites` in the function of a step. */
  assertMayWrite(): void;
  /** Records that the turn wrote by other means than the agent's SQL: the next commit takes it. */
  touch(): void;
  /** Reports how a run of a durable input or a job ended, once that is stored. */
  report(turn: Turn, end: TurnEnd): void;
}
