/**
 * How much one agent may write: the size of its state, of what one commit takes to SQL, and of its
 * journal in a minute. A write of the agent's code that exceeds a limit throws an error that names
 * the option, and changes nothing.
 *
 * 1. The journal's rate refuses turns that answer a caller or a client. Webhooks, mail, jobs and
 *    schedules are counted, and not refused: they are stored already, and would only come again.
 * 2. The limits apply to live turns only: replay accepts everything stored, whatever the limits are
 *    now. An agent that was just activated has a whole minute's worth.
 * 3. A class may set its own limits. Those of a host are the most that any class gets.
 *
 * `LiveState` and `AgentSql` ask it; the host reports each commit to it.
 */
import { CommitTooLarge, JournalRateExceeded, StateTooLarge } from "../errors/errors.ts";
import type { TimeShape } from "../time/Time.ts";
import type { Turn } from "./Turn.ts";

export interface WriteLimitOptions {
  readonly stateBytesMax?: number | undefined;
  readonly commitBytesMax?: number | undefined;
  readonly journalBytesPerMinute?: number | undefined;
}

type Most = { readonly [K in keyof WriteLimitOptions]-?: number };

/** The unit of the defaults. */
const MIB = 1024 * 1024;
export const WRITE_LIMITS_DEFAULT: Most = {
  /**
   * Each change is encoded whole, for the journal's splice, the clients and the next snapshot,
   * which takes some 0.3 s at this size.
   */
  stateBytesMax: 16 * MIB,
  /** One event, held in memory a few times over while it is on its way. */
  commitBytesMax: 64 * MIB,
  /** A hot agent of the benches writes 10 MiB a second, by webhooks. */
  journalBytesPerMinute: 512 * MIB,
};

const NAMES = Object.keys(WRITE_LIMITS_DEFAULT) as ReadonlyArray<keyof Most>;
const NO_CAPS: WriteLimitOptions = {};

/** The period of the journal's rate. */
const MINUTE_MS = 60_000;
/** UTF-8 bytes of a UTF-16 unit, at most. */
const UTF8_BYTES_MAX = 3;
const encoder = new TextEncoder();

export class WriteLimits {
  /** Bytes that may still be journaled; below 0 after the last one that was let through. */
  private left: number;
  private atMs: number;

  /** Throws `RangeError` for an invalid size. */
  constructor(
    private readonly time: Pick<TimeShape, "monotonicMs">,
    private readonly own: WriteLimitOptions,
    private readonly caps: WriteLimitOptions = NO_CAPS,
  ) {
    for (const name of NAMES) this.most(name);
    this.left = this.most("journalBytesPerMinute");
    this.atMs = time.monotonicMs();
  }

  /** Called when an event is stored, with its bytes. */
  committed(bytes: number): void {
    this.refill();
    this.left -= bytes;
  }

  /** Throws `StateTooLarge` or `JournalRateExceeded`. */
  checkState(turn: Turn, text: string | undefined): void {
    const rate = this.rateRefusal(turn);
    if (rate !== undefined) throw rate;
    const bytesMax = this.most("stateBytesMax");
    if (text === undefined || text.length * UTF8_BYTES_MAX <= bytesMax) return;
    const bytes = text.length > bytesMax ? text.length : encoder.encode(text).length;
    if (bytes > bytesMax) throw new StateTooLarge({ bytes, bytesMax });
  }

  /** Bytes of pages that may be uncommitted after SQL of this turn. */
  uncommittedMax(turn: Turn): number {
    return this.rateRefusal(turn) === undefined ? this.most("commitBytesMax") : 0;
  }

  /** Why SQL of this turn was refused by `uncommittedMax`. */
  sqlRefusal(turn: Turn): CommitTooLarge | JournalRateExceeded {
    const bytesMax = this.most("commitBytesMax");
    return this.rateRefusal(turn) ?? new CommitTooLarge({ bytesMax });
  }

  /** Rule 3. Throws `RangeError` for an invalid size. */
  private most(name: keyof Most): number {
    const { own, caps } = this;
    const most = Math.min(own[name] ?? WRITE_LIMITS_DEFAULT[name], caps[name] ?? Infinity);
    if (most > 0) return most;
    throw new RangeError(`static options.${name}: ${String(own[name])} is not a number of bytes`);
  }

  /** Rule 1. */
  private rateRefusal(turn: Turn): JournalRateExceeded | undefined {
    if (this.left > 0 || turn.durable) return undefined;
    this.refill();
    if (this.left > 0) return undefined;
    const bytesMax = this.most("journalBytesPerMinute");
    const retryAfterMs = Math.ceil(((1 - this.left) * MINUTE_MS) / bytesMax);
    return new JournalRateExceeded({ bytesMax, retryAfterMs });
  }

  private refill(): void {
    const bytesMax = this.most("journalBytesPerMinute");
    const nowMs = this.time.monotonicMs();
    this.left = Math.min(bytesMax, this.left + ((nowMs - this.atMs) * bytesMax) / MINUTE_MS);
    this.atMs = nowMs;
  }
}
