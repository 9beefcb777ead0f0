/**
 * How much one caller, or one entity, may take: a bucket of tokens for each key that fills at a steady rate.
 * `Gateway` keeps one for addresses, `WebhookEndpoint` and `upgrade` share one for entities. Past it callers
 * get 429 with the time after which it is worth coming again. `SocketRates` keeps its buckets itself.
 *
 * A bucket is one number: the moment at which it is full again. Full buckets need not be kept, so memory
 * is bounded by what came in the last few seconds, and by `KEYS_MAX`.
 */
import type { HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { plain } from "./requests.ts";

export interface Rate {
  /** Steady. */
  readonly perSecond: number;
  /** At once, after a pause. At least 1. */
  readonly burst: number;
}

/** Some 10 MB. Past it the oldest are forgotten: their callers start with a full bucket. */
const KEYS_MAX = 100_000;

/** Of one key. Made full. */
export class Bucket {
  fullAtMs = 0;
}

export class RateLimit {
  private readonly time: Pick<TimeShape, "monotonicMs">;
  private readonly intervalMs: number;
  private readonly burst: number;
  /** The order is that of the first request. */
  private readonly buckets = new Map<string, Bucket>();

  constructor(rate: Rate, time: Pick<TimeShape, "monotonicMs">) {
    if (!(rate.perSecond > 0 && rate.burst >= 1))
      throw new RangeError("a rate must be above 0 a second, with a burst of at least 1");
    this.time = time;
    this.intervalMs = 1000 / rate.perSecond;
    this.burst = rate.burst;
  }

  /** Takes a token of `key`. 0: there was one; else whole seconds after which there is one again. */
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
   * Takes `cost` tokens of a bucket. 0: there were as many; else milliseconds after which there are. More than a full bucket
   * holds is had for a full one.
   */
  spend(bucket: Bucket, nowMs: number, cost: number): number {
    const waitMs = this.waitMs(bucket, nowMs, Math.min(cost, this.burst));
    if (waitMs === 0) this.owe(bucket, nowMs, cost);
    return waitMs;
  }

  /**
   * Takes so many tokens of each key, or none of any. 0: each key had one; else as `take`. A bucket may owe what
   * was taken beyond its content: a batch of more events than a burst would otherwise never be taken.
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
      this.owe(bucket, now, count);
      this.buckets.set(key, bucket);
    }
    if (this.buckets.size > KEYS_MAX) this.forget(now);
    return 0;
  }

  /** Until the bucket holds so many; 0: it does. */
  private waitMs({ fullAtMs }: Bucket, nowMs: number, tokens: number): number {
    return Math.max(0, fullAtMs - nowMs - (this.burst - tokens) * this.intervalMs);
  }

  private owe(bucket: Bucket, nowMs: number, tokens: number): void {
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

export const tooMany = (seconds: number): HttpResponse =>
  plain(429, "Too many requests", [["retry-after", String(seconds)]]);

/**
 * The caller's address, as a key: behind so many trusted proxies it is what the outermost of them saw, the
 * n-th of `X-Forwarded-For` from its end; what stands before that anybody can write. An IPv6 caller is its network (/64).
 */
export function addressOf(request: HttpRequest, trustedProxies: number): string {
  const forwarded = (request.headers["x-forwarded-for"] ?? []).flatMap((line) => line.split(","));
  const seen = trustedProxies === 0 ? undefined : forwarded.at(-trustedProxies)?.trim();
  const address = seen === undefined || seen === "" ? request.remoteAddress : seen;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)?.[1];
  if (mapped !== undefined) return mapped;
  return address.includes(":") ? network(address) : address;
}

/** The first four of eight groups, with `::` written out. */
function network(address: string): string {
  const [before = "", after] = address.split("::");
  const head = before === "" ? [] : before.split(":");
  const tail = after === undefined || after === "" ? [] : after.split(":");
  const zeros = after === undefined ? 0 : Math.max(0, 8 - head.length - tail.length);
  return [...head, ...Array.from({ length: zeros }, () => "0"), ...tail].slice(0, 4).join(":");
}
