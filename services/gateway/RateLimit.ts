/**
 * Rate limits by key (a caller's address, an agent): a token bucket for each key, refilled at a
 * steady rate. `Gateway` has one for addresses; `WebhookEndpoint` and `upgrade` share one for
 * agents. Callers over the limit receive 429 with `retry-after`. `SocketRates` holds its buckets
 * itself.
 *
 * A bucket is one number: the time at which it is full again. Full buckets are not kept, so memory
 * is bounded by the requests of the last few seconds and by `KEYS_MAX`.
 */
import { textResponse } from "../../core/http/responseHead.ts";
import type { HttpResponse } from "../../core/http/HttpServer.ts";
import type { TimeShape } from "../../core/time/Time.ts";

export interface Rate {
  /** Tokens added each second. Above 0. */
  readonly perSecond: number;
  /** Tokens in a full bucket. At least 1. */
  readonly burst: number;
}

/** About 10 MB. Past it, the oldest buckets are dropped: their callers start with full ones. */
const KEYS_MAX = 100_000;

/** The bucket of one key. A new one is full. */
export class Bucket {
  fullAtMs = 0;
}

export class RateLimit {
  private readonly intervalMs: number;
  private readonly burst: number;
  /** In the order of the first request of each key. */
  private readonly buckets = new Map<string, Bucket>();

  /** Throws `RangeError` for a rate or a burst that is too small. */
  constructor(
    rate: Rate,
    private readonly time: Pick<TimeShape, "monotonicMs">,
  ) {
    if (!(rate.perSecond > 0 && rate.burst >= 1))
      throw new RangeError("a rate must be above 0 a second, with a burst of at least 1");
    this.intervalMs = 1000 / rate.perSecond;
    this.burst = rate.burst;
  }

  /** Takes a token of `key`. Returns 0, or the whole seconds until the next token. */
  take(key: string): number {
    const now = this.time.monotonicMs();
    const bucket = this.buckets.get(key) ?? new Bucket();
    const waitMs = this.spend(bucket, now, 1);
    if (waitMs > 0) return Math.ceil(waitMs / 1000);
    this.buckets.set(key, bucket);
    if (this.buckets.size > KEYS_MAX) this.forget(now);
    return 0;
  }

  /**
   * Takes `cost` tokens of a bucket. Returns 0, or the milliseconds until the bucket has enough. A
   * cost above the burst needs only a full bucket.
   */
  spend(bucket: Bucket, nowMs: number, cost: number): number {
    const waitMs = this.waitMs(bucket, nowMs, Math.min(cost, this.burst));
    if (waitMs === 0) this.charge(bucket, nowMs, cost);
    return waitMs;
  }

  /**
   * Takes the given number of tokens of each key, or none of any. Returns 0 if each key had at
   * least one token, else whole seconds as `take` does. A bucket may go into debt, because
   * otherwise a batch of more events than a burst would never pass.
   */
  takeAll(counts: Iterable<readonly [key: string, count: number]>): number {
    const now = this.time.monotonicMs();
    const wanted = [...counts].map(([key, count]) => {
      const bucket = this.buckets.get(key) ?? new Bucket();
      return { key, bucket, count };
    });
    const waitMs = Math.max(0, ...wanted.map(({ bucket }) => this.waitMs(bucket, now, 1)));
    if (waitMs > 0) return Math.ceil(waitMs / 1000);
    for (const { key, bucket, count } of wanted) {
      this.charge(bucket, now, count);
      this.buckets.set(key, bucket);
    }
    if (this.buckets.size > KEYS_MAX) this.forget(now);
    return 0;
  }

  /** Milliseconds until the bucket holds `tokens`; 0 if it does. */
  private waitMs({ fullAtMs }: Bucket, nowMs: number, tokens: number): number {
    return Math.max(0, fullAtMs - nowMs - (this.burst - tokens) * this.intervalMs);
  }

  private charge(bucket: Bucket, nowMs: number, tokens: number): void {
    bucket.fullAtMs = Math.max(nowMs, bucket.fullAtMs) + tokens * this.intervalMs;
  }

  private forget(now: number): void {
    for (const [key, { fullAtMs }] of this.buckets) if (fullAtMs <= now) this.buckets.delete(key);
    for (const key of this.buckets.keys()) {
      if (this.buckets.size <= KEYS_MAX / 2) return;
      this.buckets.delete(key);
    }
  }
}

/** The 429 of a caller that is over its limit. */
export const tooMany = (seconds: number): HttpResponse =>
  textResponse(429, "Too many requests", [["retry-after", String(seconds)]]);
