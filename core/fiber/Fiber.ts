/**
 * The parameters and results of `runFiber` and `startFiber` (`protocol.md` §5): work of an agent
 * that is recorded while it runs, so that it is reported after a crash. The function itself is not
 * kept: it continues from what it stashed.
 */
import type { Cause } from "../../schemas/JournalEvent.ts";
import { messageOf } from "../errors/thrown.ts";

/** `interrupted`: its host ended, and its recovery has not decided what becomes of it. */
export type FiberStatus = "pending" | "running" | "completed" | "aborted" | "interrupted" | "error";

/** What a fiber's function receives. */
export interface FiberContext {
  readonly id: string;
  /**
   * Fires when the fiber is cancelled, and when its agent leaves memory: its work is then repeated
   * elsewhere.
   */
  readonly signal: AbortSignal;
  /**
   * Replaces the snapshot that `onFiberRecovered` receives. JSON. Stored with the next commit,
   * which has begun when this returns.
   */
  readonly stash: (data: unknown) => void;
  /** Always null: an earlier stash is passed to `onFiberRecovered`. */
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
  /** Whether the call resolves only when the fiber has ended. Default: when it is accepted. */
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

/** What becomes of a kept fiber that was interrupted. Absent fields stay as they are. */
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

/** Why it did not complete; null: it did, or nothing is said. */
export function reasonOf(result: FiberRecoveryResult): string | null {
  if (result.status === "completed") return null;
  if (result.status === "error") return result.error === undefined ? null : messageOf(result.error);
  return result.reason ?? null;
}

/** What `onFiberRecovered` receives. */
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
  /** Only ended fibers are deleted. Default `completed`, `aborted` and `error`. */
  readonly status?: FiberStatus | ReadonlyArray<FiberStatus>;
  readonly settledBefore?: Date;
  /** 1 to 500; default 100. */
  readonly limit?: number;
}

/** What else is kept of fibers while they run: their questions, the results of their steps. */
export interface KeptOfFibers {
  /** A fiber continues in place of another one. */
  moved(from: string, to: string): void;
  ended(fiber: string): void;
}

/** Start of the cause's type in the journal for what a fiber wrote; its name follows. */
export const CAUSE_TYPE = "fiber ";

/** The id of the cause's fiber; undefined for the cause of anything else. */
export const fiberOf = (cause: Cause | undefined): string | undefined =>
  cause?.type?.startsWith(CAUSE_TYPE) === true ? cause.id : undefined;

/** Defaults of `static options`; the reference's numbers. */
export const FIBER_OPTIONS_DEFAULT = {
  keepAliveIntervalMs: 30_000,
  fiberRecoveryScanDeadlineMs: 10_000,
  fiberRecoveryMaxAgeMs: 24 * 3600 * 1000,
} as const;

export type FiberOptions = { readonly [Option in keyof typeof FIBER_OPTIONS_DEFAULT]?: number };
