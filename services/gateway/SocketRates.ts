/**
 * How much clients may send over their sockets: frames and bytes a second, of one socket and of all sockets of one
 * address. `SocketTable` asks for each message and each ping, and closes the socket that goes past it. Costs a look at
 * the clock and four subtractions a frame.
 *
 * An address of this machine or of a private network is not counted: it is a proxy's whose word is not taken
 * (`trustedProxies`), so everybody would share it, or one's own.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import { Bucket, RateLimit, type Rate } from "./RateLimit.ts";

/** Of one socket. Undefined: no limit. */
export interface SocketRateLimits {
  readonly frames?: Rate;
  readonly bytes?: Rate;
}

/** Somebody who sends what has gathered while a connection was away is not an attacker. */
const BURST_SECONDS = 2;

export const socketRate = (perSecond: number): Rate => ({
  perSecond,
  burst: perSecond * BURST_SECONDS,
});

/**
 * People send a few frames a second, games and cursors 60 to 120. A program that makes one call after another gets to
 * some 3,200 a second through a gateway and a host of one machine (`docs/evidence/performance.md`, `rpc`), and to less over a
 * network. A gateway's core takes 32,000. A frame of 1 MiB eight times a second is an upload, which is for HTTP.
 */
export const FRAMES_PER_SECOND = 5_000;
export const BYTES_PER_SECOND = 8 * 1024 * 1024;

/** Tabs, a household, an office: many share an address, but not many send at their most at the same time. */
const ADDRESS_FACTOR = 4;

interface Limit {
  readonly rate: RateLimit;
  /** For the close frame: 123 bytes at most. */
  readonly reason: string;
}

interface Limits {
  readonly frames: Limit | undefined;
  readonly bytes: Limit | undefined;
}

class Meter {
  readonly frames = new Bucket();
  readonly bytes = new Bucket();
}

interface Address {
  readonly meter: Meter;
  sockets: number;
}

export interface SocketMeter {
  /** The reason when it is too much, else undefined. */
  readonly take: (bytes: number) => string | undefined;
  /** Once, when the socket is closed. */
  readonly close: () => void;
}

export class SocketRates {
  private readonly time: Pick<TimeShape, "monotonicMs">;
  private readonly ofSocket: Limits;
  private readonly ofAddress: Limits;
  /** Those that have sockets open. */
  private readonly addresses = new Map<string, Address>();

  constructor({ frames, bytes }: SocketRateLimits, time: Pick<TimeShape, "monotonicMs">) {
    this.time = time;
    const limits = (whose: string, factor: number): Limits => {
      const limit = (rate: Rate | undefined, unit: string, option: string): Limit | undefined =>
        rate && {
          rate: new RateLimit(
            { perSecond: rate.perSecond * factor, burst: rate.burst * factor },
            time,
          ),
          reason: `Over ${rate.perSecond * factor} ${unit} a second of one ${whose} (${option})`,
        };
      return {
        frames: limit(frames, "frames", "--frames-per-socket"),
        bytes: limit(bytes, "bytes", "--bytes-per-socket"),
      };
    };
    this.ofSocket = limits("socket", 1);
    this.ofAddress = limits("address", ADDRESS_FACTOR);
  }

  /** For a socket that was opened from this address (`addressOf`). */
  open(address: string): SocketMeter {
    const own = new Meter();
    const shared = isPrivate(address) ? undefined : this.join(address);
    return {
      take: (bytes) => {
        const now = this.time.monotonicMs();
        return (
          over(this.ofSocket, own, now, bytes) ??
          (shared && over(this.ofAddress, shared.meter, now, bytes))
        );
      },
      close: () => {
        if (shared !== undefined && --shared.sockets === 0) this.addresses.delete(address);
      },
    };
  }

  private join(address: string): Address {
    const known = this.addresses.get(address) ?? { meter: new Meter(), sockets: 0 };
    known.sockets += 1;
    this.addresses.set(address, known);
    return known;
  }
}

function over(
  { frames, bytes }: Limits,
  meter: Meter,
  nowMs: number,
  size: number,
): string | undefined {
  if (frames !== undefined && frames.rate.spend(meter.frames, nowMs, 1) > 0) return frames.reason;
  if (bytes !== undefined && bytes.rate.spend(meter.bytes, nowMs, size) > 0) return bytes.reason;
  return undefined;
}

/** IPv4 of RFC 1918, 6598, 3927 and loopback; of IPv6, as its first four groups, loopback, unique local and link local. */
const PRIVATE =
  /^(?:10\.|127\.|192\.168\.|169\.254\.|172\.(?:1[6-9]|2\d|3[01])\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|0:0:0:0$|f[cd][0-9a-f]{2}:|fe80:)/i;

const isPrivate = (address: string): boolean => PRIVATE.test(address);
