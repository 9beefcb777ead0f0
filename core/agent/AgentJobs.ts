/**
 * The part of `Agent` for later work: schedules, the queue, `retry()`, outgoing webhooks
 * (`interface.md` §4.2-§4.6, `protocol.md` §6.3-§6.5). Users never name this base class; it keeps
 * `Agent` readable. The runtime behind `ctx` does everything durable.
 */
import {
  readInterval,
  readScheduleCall,
  type Schedule,
  type ScheduleOptions,
  type ScheduleSettings,
  type ScheduleType,
} from "../schedule/Schedule.ts";
import { callOfNatural, type NaturalSchedule } from "../schedule/naturalSchedule.ts";
import { toSchedule } from "../schedule/ScheduleTable.ts";
import type { SendWebhookOptions } from "../outgoing/OutgoingWebhook.ts";
import type { QueueItem } from "../queue/QueueTable.ts";
import { backoffMs, resolveRetry } from "../retry/retryPolicy.ts";
import type { RetryOptions } from "../retry/RetryOptions.ts";
import { FIBER_ALARM } from "../fiber/Fiber.ts";
import type { Step, StepOptions } from "../step/Step.ts";
import { runtimeOf, type AgentContext } from "./AgentContext.ts";
import type { AgentRuntime } from "./AgentRuntime.ts";
import { classOptions } from "./AgentStaticOptions.ts";

/** A filter of schedules: those that meet all given criteria. */
export interface ScheduleCriteria {
  /** The schedule's id. */
  readonly id?: string;
  /** The kind of schedule. */
  readonly type?: ScheduleType;
  /** The next due time, both ends included. */
  readonly timeRange?: { readonly start?: Date; readonly end?: Date };
}

/** Options of `retry`. */
export interface RetryCallOptions extends RetryOptions {
  /**
   * Returns false to stop retrying. `nextAttempt` counts from 1. Default: every error is retried.
   */
  readonly shouldRetry?: (error: unknown, nextAttempt: number) => boolean;
}

/** Keys that tell an options object of `queue` from retry options given in its place. */
const RETRY_KEYS = ["maxAttempts", "baseDelayMs", "maxDelayMs"];

/** See `Agent`. */
export class AgentJobs {
  /**
   * The context of this instance: its id and storage, `waitUntil`, `blockConcurrencyWhile`,
   * `abort`.
   */
  readonly ctx: AgentContext;

  constructor(ctx: AgentContext) {
    this.ctx = ctx;
  }

  /**
   * Calls a method later, durable with this turn. `options` has exactly one of `time`,
   * `delayInSeconds`, `cron` and `intervalSeconds`. Resolves to the schedule's id. Rejects for an
   * unknown method, a bad cron expression or an invalid time, with a message that says which.
   */
  schedule<T = unknown>(callback: string, options: ScheduleOptions<T>): Promise<string>;
  /** The reference's shape: calls a method once, at a time. Resolves to the schedule. */
  schedule<T = unknown>(
    time: Date,
    callback: string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  /** Calls a method once, after a delay in seconds; fractions count. Resolves to the schedule. */
  schedule<T = unknown>(
    delaySeconds: number,
    callback: string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  /**
   * Calls a method by a cron expression, in UTC unless `options.timezone` says otherwise. Resolves
   * to the schedule.
   */
  schedule<T = unknown>(
    cron: string,
    callback: string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  /** Any of the three: a time, a delay in seconds, or a cron expression. */
  schedule<T = unknown>(
    when: Date | number | string,
    callback: string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  schedule(...args: unknown[]): Promise<string | Schedule> {
    return ask(this.ctx, ({ scheduler }) => {
      const call = readScheduleCall(args);
      const row = scheduler.add(call);
      return call.shape === "interface" ? row.id : toSchedule(row);
    });
  }

  /**
   * Calls a method at a fixed interval in seconds, counted from the end of each run: more than 0,
   * at most 2,592,000 (30 days). Resolves to the schedule. Rejects with `RangeError` for another
   * interval, and for an unknown method.
   */
  scheduleEvery<T = unknown>(
    intervalSeconds: number,
    callback: string,
    payload?: T,
    options: ScheduleSettings = {},
  ): Promise<Schedule<T>> {
    return ask(this.ctx, ({ scheduler }) => {
      const when = readInterval(intervalSeconds);
      const settings = { ...options, ...(payload === undefined ? {} : { payload }) };
      const call = { callback, when, settings, shape: "reference" as const };
      return toSchedule(scheduler.add(call)) as Schedule<T>;
    });
  }

  /**
   * Schedules the result of `agents/schedule` for free text. The callback's payload is the
   * description unless `settings` has another. Resolves to the schedule's id, or to null when the
   * text contains no time. Rejects with `RangeError` for an invalid date, and as `schedule` does.
   */
  scheduleFrom(
    result: NaturalSchedule,
    callback = "onSchedule",
    settings: ScheduleSettings = {},
  ): Promise<string | null> {
    return ask(this.ctx, ({ scheduler }) => {
      const call = callOfNatural(result, callback, settings);
      return call === undefined ? null : scheduler.add(call).id;
    });
  }

  /** The schedule with this id; undefined without one. */
  getSchedule<T = unknown>(id: string): Schedule<T> | undefined {
    const row = runtimeOf(this.ctx).scheduler.table.get(id);
    return row === undefined || row.callback === FIBER_ALARM
      ? undefined
      : (toSchedule(row) as Schedule<T>);
  }

  /** The schedules that meet the criteria; all without criteria. */
  getSchedules<T = unknown>(criteria: ScheduleCriteria = {}): Array<Schedule<T>> {
    const { id, type, timeRange } = criteria;
    const from = timeRange?.start === undefined ? -Infinity : timeRange.start.getTime() / 1000;
    const to = timeRange?.end === undefined ? Infinity : timeRange.end.getTime() / 1000;
    return runtimeOf(this.ctx)
      .scheduler.table.all()
      .filter(({ callback }) => callback !== FIBER_ALARM)
      .map((row) => toSchedule(row) as Schedule<T>)
      .filter(
        (schedule) =>
          (id === undefined || schedule.id === id) &&
          (type === undefined || schedule.type === type) &&
          schedule.time >= from &&
          schedule.time <= to,
      );
  }

  /** `getSchedule`, as a promise. */
  async getScheduleById<T = unknown>(id: string): Promise<Schedule<T> | undefined> {
    return this.getSchedule<T>(id);
  }

  /** `getSchedules`, as a promise. */
  async listSchedules<T = unknown>(criteria: ScheduleCriteria = {}): Promise<Array<Schedule<T>>> {
    return this.getSchedules<T>(criteria);
  }

  /**
   * Cancels a schedule: its callback does not start once this turn is stored. Resolves to whether
   * it existed.
   */
  async cancelSchedule(id: string): Promise<boolean> {
    return runtimeOf(this.ctx).scheduler.cancel(id);
  }

  /**
   * Calls a method as soon as possible after this turn: durable, first in first out, one at a time.
   * `options` are retry options, or `{ retry?, id? }`; `id` is random unless given. Resolves to the
   * item's id without waiting for the callback. Rejects for an unknown method and for a payload
   * that is not JSON.
   */
  queue<T = unknown>(
    callback: string,
    payload?: T,
    options: RetryOptions | { readonly retry?: RetryOptions; readonly id?: string } = {},
  ): Promise<string> {
    return ask(this.ctx, ({ queue }) => {
      const settings = RETRY_KEYS.some((key) => key in options)
        ? { retry: options as RetryOptions }
        : (options as { readonly retry?: RetryOptions; readonly id?: string });
      return queue.push(callback, payload, settings);
    });
  }

  /** Removes a queue item. Resolves to whether it existed, waiting or running. */
  async dequeue(id: string): Promise<boolean> {
    return runtimeOf(this.ctx).queue.remove("id = ?", id) > 0;
  }
  /** Removes all queue items. Resolves to their number. */
  async dequeueAll(): Promise<number> {
    return runtimeOf(this.ctx).queue.remove("1");
  }
  /** Removes the queue items of one method. Resolves to their number. */
  async dequeueAllByCallback(callback: string): Promise<number> {
    return runtimeOf(this.ctx).queue.remove("callback = ?", callback);
  }
  /** The queue item with this id; undefined without one. */
  async getQueue<T = unknown>(id: string): Promise<QueueItem<T> | undefined> {
    return runtimeOf(this.ctx).queue.get(id) as QueueItem<T> | undefined;
  }
  /** The queue items whose payload has `value` under `key`. */
  async getQueues<T = unknown>(key: string, value: unknown): Promise<Array<QueueItem<T>>> {
    return [...runtimeOf(this.ctx).queue.matching(key, value)] as Array<QueueItem<T>>;
  }

  /**
   * Sends `body` as JSON by POST once this turn is stored: durable, retried by the policy, in the
   * order of the calls. Resolves to the `Idempotency-Key` without waiting for the answer. A request
   * that fails for good goes to `onError`, as an `OutgoingWebhookFailed` whose message contains the
   * status, and to the dead letters. Rejects with `TypeError` for a body or URL that can't be sent,
   * and for an address that is not public unless `allowPrivate`.
   */
  async sendWebhook(
    url: string | URL,
    body: unknown,
    options: SendWebhookOptions = {},
  ): Promise<string> {
    return runtimeOf(this.ctx).sendWebhook(url, body, options);
  }

  /**
   * Runs `f` once, and keeps what it returns with the turn: when the turn runs again, on any host, a
   * step that is done is not run, and its result is given back. For webhooks, schedules, queue
   * items, mail and reports of workflows. A step is known by its name and by how many of that name
   * the turn began before it.
   *
   * `f` receives a `Step`: an idempotency key for what it calls, which `fetch` sends by itself, and
   * a signal. It can't write to the agent. Failed attempts are tried again by `options.retry`.
   * Resolves to the result as JSON has it. Rejects with what the last attempt threw, `StepTimedOut`,
   * `TypeError` for a result that JSON can't carry, `StepTooLarge`, and `StepNotDurable` in a turn
   * of another kind.
   */
  step<A>(name: string, f: (step: Step) => A | Promise<A>, options: StepOptions = {}): Promise<A> {
    return runtimeOf(this.ctx).steps.run(name, f, options);
  }

  /**
   * Calls `f(attempt)`, with attempts counted from 1, until it succeeds, waiting `random · min(base
   * · 2^n, max)` after failed attempt n. Rejects with the last error when the attempts are spent or
   * `shouldRetry` returns false, and with an `Error` for options out of range. In memory only: work
   * that must survive a crash belongs into `queue`.
   */
  async retry<T>(f: (attempt: number) => Promise<T>, options: RetryCallOptions = {}): Promise<T> {
    const { shouldRetry, ...given } = options;
    const { time } = runtimeOf(this.ctx);
    const policy = resolveRetry(classOptions(this).retry, given);
    for (let attempt = 1; ; attempt++) {
      try {
        return await f(attempt);
      } catch (error) {
        if (attempt >= policy.maxAttempts) throw error;
        if (shouldRetry !== undefined && !shouldRetry(error, attempt + 1)) throw error;
        const delayMs = backoffMs(policy, attempt, time.random());
        await new Promise<void>((resolve) => time.after(delayMs, resolve));
      }
    }
  }
}

/**
 * Resolves or rejects with what `f` returns or throws. A rejection that nothing handles fails the
 * turn.
 */
async function ask<A>(ctx: AgentContext, f: (runtime: AgentRuntime) => A): Promise<A> {
  const runtime = runtimeOf(ctx);
  try {
    return f(runtime);
  } catch (error) {
    runtime.rejects();
    throw error;
  }
}
