/**
 * Decides who may see the console: callers that send its token as `Authorization: Bearer`. The
 * token is never in a cookie, because browsers send the cookies of one port to every other port of
 * the same host.
 *
 * 1. Tokens are compared by digest and in constant time.
 * 2. An address that sent too many wrong tokens is refused for a minute, whatever it sends, so that
 *    fast guessing gains nothing. A request without a token is not counted. Behind a proxy the
 *    address is the one that the proxy saw, or one visitor would lock out all of its users.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import { addressOf } from "../../core/http/clientAddress.ts";
import type { HttpRequest } from "../../core/http/HttpServer.ts";
import type { TimeShape } from "../../core/time/Time.ts";

/** A person mistypes a few times. 16 random characters can't be guessed at this rate. */
const FAILURES_MAX = 10;
const WINDOW_MS = 60_000;
/** Some 2 MB. Past it the oldest addresses are forgotten. */
const ADDRESSES_MAX = 10_000;

type TokenVerdict = "right" | "absent" | "wrong" | "tooMany";

interface Failures {
  count: number;
  readonly untilMs: number;
}

export class ConsoleToken {
  private readonly digest: Buffer;
  private readonly failures = new Map<string, Failures>();

  /** `trustedProxies`: as of `addressOf`. */
  constructor(
    token: string,
    private readonly time: Pick<TimeShape, "monotonicMs">,
    private readonly trustedProxies: number,
  ) {
    this.digest = digestOf(token);
  }

  judge(request: Pick<HttpRequest, "headers" | "remoteAddress">): TokenVerdict {
    const token = /^bearer +(.*)$/i.exec(request.headers["authorization"]?.[0] ?? "")?.[1];
    if (token === undefined) return "absent";
    const address = addressOf(request, this.trustedProxies);
    const now = this.time.monotonicMs();
    const kept = this.failures.get(address);
    const failed = kept !== undefined && kept.untilMs > now ? kept : undefined;
    if (failed !== undefined && failed.count >= FAILURES_MAX) return "tooMany";
    if (timingSafeEqual(digestOf(token), this.digest)) return "right";
    this.failures.delete(address);
    this.failures.set(address, {
      count: (failed?.count ?? 0) + 1,
      untilMs: failed?.untilMs ?? now + WINDOW_MS,
    });
    for (const oldest of this.failures.keys()) {
      if (this.failures.size <= ADDRESSES_MAX) break;
      this.failures.delete(oldest);
    }
    return "wrong";
  }
}

/** Seconds for `Retry-After`. */
export const RETRY_AFTER_SECONDS = WINDOW_MS / 1000;

const digestOf = (token: string): Buffer => createHash("sha256").update(token).digest();
