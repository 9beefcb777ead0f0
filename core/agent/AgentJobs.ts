/**
 * The part of `Agent` that makes things happen later: schedules, the queue, `retry()`, outgoing
 * webhooks (`interface.md` §4.2-§4.6, `protocol.md` §6.3-§6.5). A base class only so that `Agent`
 * stays readable; users never name it. Everything durable is done by the runtime behind `ctx`.
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
import { runtimeOf, type AgentContext } from "./AgentContext.ts";
import { classOptions } from "./AgentStaticOptions.ts";

export interface ScheduleCriteria {
  readonly id?: string;
  readonly type?: ScheduleType;
  readonly timeRange?: { readonly start?: Date; readonly end?: Date };
}

export interface RetryCallOptions extends RetryOptions {
  /** False stops retrying at once; `nextAttempt` is 1-based. */
  readonly shouldRetry?: (error: unknown, nextAttempt: number) => boolean;
}

/** Keys that tell an options object of `queue` from retry options given in its place. */
const RETRY_KEYS = ["maxAttempts", "baseDelayMs", "maxDelayMs"];

export class AgentJobs {
  readonly ctx: AgentContext;

  constructor(ctx: AgentContext) {
    this.ctx = ctx;
  }

  /**
   * Calls a method later: `schedule("method", { time | delayInSeconds | cron | intervalSeconds,
   * payload?, retry? })` gives the id; `schedule(when, "method", payload?, options?)`, the
   * reference's shape, gives the schedule. Throws for an unknown method, a bad cron expression, a
   * time that is none.
   */
  schedule<T = unknown>(callback: string, options: ScheduleOptions<T>): Promise<string>;
  schedule<T = unknown>(
    when: Date | number | string,
    callback: string,
    payload?: T,
    options?: ScheduleSettings,
  ): Promise<Schedule<T>>;
  async schedule(...args: unknown[]): Promise<string | Schedule> {
    const call = readScheduleCall(args);
    const row = runtimeOf(this.ctx).scheduler.add(call);
    return call.shape === "interface" ? row.id : toSchedule(row);
  }

  /** Calls a method at a fixed interval, counted from the end of each run. At most 30 days. */
  async scheduleEvery<T = unknown>(
    intervalSeconds: number,
    callback: string,
    payload?: T,
    options: ScheduleSettings = {},
  ): Promise<Schedule<T>> {
    const when = readInterval(intervalSeconds);
    const settings = { ...options, ...(payload === undefined ? {} : { payload }) };
    const call = { callback, when, settings, shape: "reference" as const };
    return toSchedule(runtimeOf(this.ctx).scheduler.add(call)) as Schedule<T>;
  }

  /**
   * Schedules what `agents/schedule` made of free text, by the variant that fits. The callback's
   * payload is the description unless `settings` has another. The id; null when the text says no
   * time.
   */
  async scheduleFrom(
    result: NaturalSchedule,
    callback = "onSchedule",
    settings: ScheduleSettings = {},
  ): Promise<string | null> {
    const call = callOfNatural(result, callback, settings);
    return call === undefined ? null : runtimeOf(this.ctx).scheduler.add(call).id;
  }

  getSchedule<T = unknown>(id: string): Schedule<T> | undefined {
    const row = runtimeOf(this.ctx).scheduler.table.get(id);
    return row === undefined || row.callback === FIBER_ALARM
      ? undefined
      : (toSchedule(row) as Schedule<T>);
  }

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

  async getScheduleById<T = unknown>(id: string): Promise<Schedule<T> | undefined> {
    return this.getSchedule<T>(id);
  }

  async listSchedules<T = unknown>(criteria: ScheduleCriteria = {}): Promise<Array<Schedule<T>>> {
    return this.getSchedules<T>(criteria);
  }

  /** Whether there was one. Once this turn is stored its callback does not start any more. */
  async cancelSchedule(id: string): Promise<boolean> {
    return runtimeOf(this.ctx).scheduler.cancel(id);
  }

  /**
   * Calls a method as soon as possible, after this turn: durable, first in first out, one at a
   * time. `options` are retry options, or `{ retry?, id? }`. Resolves to the item's id, never
   * waiting for the callback.
   */
  async queue<T = unknown>(
    callback: string,
    payload?: T,
    options: RetryOptions | { readonly retry?: RetryOptions; readonly id?: string } = {},
  ): Promise<string> {
    const settings = RETRY_KEYS.some((key) => key in options)
      ? { retry: options as RetryOptions }
      : (options as { readonly retry?: RetryOptions; readonly id?: string });
    return runtimeOf(this.ctx).queue.push(callback, payload, settings);
  }

  /** Whether it was there, waiting or running. */
  async dequeue(id: string): Promise<boolean> {
    return runtimeOf(this.ctx).queue.remove("id = ?", id) > 0;
  }
  async dequeueAll(): Promise<number> {
    return runtimeOf(this.ctx).queue.remove("1");
  }
  async dequeueAllByCallback(callback: string): Promise<number> {
    return runtimeOf(this.ctx).queue.remove("callback = ?", callback);
  }
  async getQueue<T = unknown>(id: string): Promise<QueueItem<T> | undefined> {
    return runtimeOf(this.ctx).queue.get(id) as QueueItem<T> | undefined;
  }
  /** Items whose payload has `value` under `key`. */
  async getQueues<T = unknown>(key: string, value: unknown): Promise<Array<QueueItem<T>>> {
    return [...runtimeOf(this.ctx).queue.matching(key, value)] as Array<QueueItem<T>>;
  }

  /**
   * Sends `body` as JSON by POST once this turn is stored, retried by the policy, in the order of
   * the calls: durable, never waiting for the answer. What fails for good goes to `onError` (its
   * message holds the status) and to the dead letters. Resolves to the `Idempotency-Key`. Rejects
   * with `TypeError` for what can't be sent, and for an address that is not public unless
   * `allowPrivate`.
   */
  async sendWebhook(
    url: string | URL,
    body: unknown,
    options: SendWebhookOptions = {},
  ): Promise<string> {
    return runtimeOf(this.ctx).sendWebhook(url, body, options);
  }

  /**
   * Calls `f(attempt)` (from 1) until it succeeds, waiting `random · min(base · 2^n, max)` after
   * failed attempt n. Rejects with the last error when the attempts are spent or `shouldRetry` says
   * no. In memory only: for what must survive, `queue`.
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
