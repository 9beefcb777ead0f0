/**
 * How often one caller, or one entity, may come: a bucket of tokens for each key that fills at a steady rate.
 * `Gateway` keeps one for addresses, `WebhookEndpoint` and `upgrade` share one for entities. Past it callers
 * get 429 with the time after which it is worth coming again.
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

export class RateLimit {
  private readonly time: Pick<TimeShape, "monotonicMs">;
  private readonly intervalMs: number;
  private readonly slackMs: number;
  /** By key: when its bucket is full again. The order is that of the first request. */
  private readonly fullAtMs = new Map<string, number>();

  constructor(rate: Rate, time: Pick<TimeShape, "monotonicMs">) {
    if (!(rate.perSecond > 0 && rate.burst >= 1))
      throw new RangeError("a rate must be above 0 a second, with a burst of at least 1");
    this.time = time;
    this.intervalMs = 1000 / rate.perSecond;
    this.slackMs = (rate.burst - 1) * this.intervalMs;
  }

  /** Takes a token of `key`. 0: there was one; else whole seconds after which there is one again. */
  take(key: string): number {
    const now = this.time.monotonicMs();
    const fullAt = Math.max(now, this.fullAtMs.get(key) ?? now);
    const waitMs = fullAt - now - this.slackMs;
    if (waitMs > 0) return Math.ceil(waitMs / 1000);
    this.fullAtMs.set(key, fullAt + this.intervalMs);
    if (this.fullAtMs.size > KEYS_MAX) this.forget(now);
    return 0;
  }

  /**
   * Takes so many tokens of each key, or none of any. 0: each key had one; else as `take`. A bucket may owe what
   * was taken beyond its content: a batch of more events than a burst would otherwise never be taken.
   */
  takeAll(counts: Iterable<readonly [key: string, count: number]>): number {
    const now = this.time.monotonicMs();
    const taken: Array<readonly [string, number]> = [];
    let waitMs = 0;
    for (const [key, count] of counts) {
      const fullAt = Math.max(now, this.fullAtMs.get(key) ?? now);
      waitMs = Math.max(waitMs, fullAt - now - this.slackMs);
      taken.push([key, fullAt + count * this.intervalMs]);
    }
    if (waitMs > 0) return Math.ceil(waitMs / 1000);
    for (const [key, fullAt] of taken) this.fullAtMs.set(key, fullAt);
    if (this.fullAtMs.size > KEYS_MAX) this.forget(now);
    return 0;
  }

  private forget(now: number): void {
    for (const [key, fullAt] of this.fullAtMs) if (fullAt <= now) this.fullAtMs.delete(key);
    for (const key of this.fullAtMs.keys()) {
      if (this.fullAtMs.size <= KEYS_MAX / 2) return;
      this.fullAtMs.delete(key);
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
