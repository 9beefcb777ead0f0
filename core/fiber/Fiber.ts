/**
 * What `runFiber` and `startFiber` take and give (`protocol.md` §5): work of an agent's own that is
 * known to be on, so that it is reported after a crash. The function itself is not kept: it
 * continues from what it stashed.
 */
import type { Cause } from "../../schemas/JournalEvent.ts";

/** `interrupted`: its host ended, and its recovery has not said what becomes of it. */
export type FiberStatus = "pending" | "running" | "completed" | "aborted" | "interrupted" | "error";

/** What a fiber's function is given. */
export interface FiberContext {
  readonly id: string;
  /**
   * Fires when it is cancelled, and when its agent leaves memory: what it does then is done again
   * elsewhere.
   */
  readonly signal: AbortSignal;
  /**
   * Replaces what `onFiberRecovered` is given. JSON. Stored with the next commit, which is on its
   * way when this returns.
   */
  readonly stash: (data: unknown) => void;
  /** Always null: what was stashed before goes to `onFiberRecovered`. */
  readonly snapshot: unknown;
}

/** The function of a fiber. Its result is that of `runFiber`. */
export type FiberFunction<A> = (context: FiberContext) => Promise<A> | A;

/** Options of `startFiber`. */
export interface StartFiberOptions {
  /** Default: random. */
  readonly fiberId?: string;
  /** One fiber for all calls with this key. */
  readonly idempotencyKey?: string;
  /** JSON. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** Resolve when it has ended. Default false: when it is accepted. */
  readonly waitForCompletion?: boolean;
}

/** The record of a fiber that `startFiber` began. */
export interface FiberInspection {
  readonly fiberId: string;
  readonly name: string;
  readonly idempotencyKey?: string;
  readonly status: FiberStatus;
  readonly snapshot?: unknown;
  /** Why it failed, was aborted, or is interrupted. */
  readonly error?: string;
  readonly metadata?: Record<string, unknown>;
  /** Milliseconds since the epoch, like all of these. */
  readonly createdAt: number;
  readonly startedAt?: number;
  readonly settledAt?: number;
}

/** What `startFiber` resolves to. */
export type StartFiberResult = FiberInspection & {
  /** Whether this call began it. */
  readonly accepted: boolean;
};

/** What becomes of a kept fiber that was interrupted; what is left out of it stays. */
export type FiberRecoveryResult =
  | {
      readonly status: "completed";
      readonly snapshot?: unknown;
      readonly metadata?: Readonly<Record<string, unknown>>;
    }
  | { readonly status: "error"; readonly error?: unknown; readonly snapshot?: unknown }
  | {
      readonly status: "aborted" | "interrupted";
      readonly reason?: string;
      readonly snapshot?: unknown;
    };

/** What `onFiberRecovered` is given. */
export interface FiberRecoveryContext {
  readonly id: string;
  readonly name: string;
  /** Set, like the next two, when `startFiber` began it. */
  readonly status?: FiberStatus;
  readonly idempotencyKey?: string;
  readonly metadata?: Record<string, unknown> | null;
  /** What it stashed last, or null. */
  readonly snapshot: unknown;
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly recoveryReason: "interrupted";
}

/** A filter of fibers: those that meet all given criteria. */
export interface ListFibersOptions {
  readonly status?: FiberStatus | ReadonlyArray<FiberStatus>;
  readonly name?: string;
  /** 1 to 100; default 50. */
  readonly limit?: number;
}

/** Which records `deleteFibers` deletes: those that meet all given criteria. */
export interface DeleteFibersOptions {
  /** Those that have ended only. Default `completed`, `aborted` and `error`. */
  readonly status?: FiberStatus | ReadonlyArray<FiberStatus>;
  readonly settledBefore?: Date;
  /** 1 to 500; default 100. */
  readonly limit?: number;
}

/** How the journal tells what a fiber wrote, before its name. */
export const CAUSE_TYPE = "fiber ";

/** The id of the fiber that the cause is of; undefined: it is of none. */
export const fiberOf = (cause: Cause | undefined): string | undefined =>
  cause?.type?.startsWith(CAUSE_TYPE) === true ? cause.id : undefined;

/** The agent's method that the alarm of its fibers calls (`Fibers`, rule 2). */
export const FIBER_ALARM = "_checkFibers";

/** Of `static options`; the reference's numbers. */
export const FIBER_OPTIONS_DEFAULT = {
  keepAliveIntervalMs: 30_000,
  fiberRecoveryScanDeadlineMs: 10_000,
  fiberRecoveryMaxAgeMs: 24 * 3600 * 1000,
} as const;

export type FiberOptions = { readonly [Option in keyof typeof FIBER_OPTIONS_DEFAULT]?: number };
