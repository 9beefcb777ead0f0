/**
 * Limits what clients send over their sockets: frames and bytes a second, for each socket and for
 * all sockets of one address, and how many sockets an address has. `SocketTable` checks each
 * message and each ping, and closes a socket that is over its limit; `upgrade` refuses handshakes.
 * A check costs one read of the clock and four subtractions.
 *
 * Loopback and private addresses have no limit of their own. Such an address is either local or
 * that of a proxy that is not trusted (`trustedProxies`), which all clients behind it would share.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import { Bucket, RateLimit, type Rate } from "./RateLimit.ts";

/** Limits of one socket, and the number of one address. Undefined: no limit. */
export interface SocketRateLimits {
  readonly perAddressMax?: number;
  readonly frames?: Rate;
  readonly bytes?: Rate;
}

/** Lets a client send what it queued while it was disconnected. */
const BURST_SECONDS = 2;

export const socketRate = (perSecond: number): Rate => ({
  perSecond,
  burst: perSecond * BURST_SECONDS,
});

/**
 * People send a few frames a second, games and cursors 60 to 120. A program that makes calls in
 * sequence reaches about 3,200 a second if gateway and host run on one machine
 * (`docs/evidence/performance.md`, `rpc`), and fewer over a network. One core of a gateway handles
 * 32,000. Eight frames of 1 MiB a second are an upload, which belongs on HTTP.
 */
export const FRAMES_PER_SECOND = 5_000;
export const BYTES_PER_SECOND = 8 * 1024 * 1024;

/** Tabs, households and offices share an address, but rarely send at their limit together. */
const ADDRESS_FACTOR = 4;

interface Limit {
  readonly rate: RateLimit;
  /** Sent in the close frame, so at most 123 bytes. */
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
  /** Sockets, and handshakes that are not decided. Counted only if they have a limit. */
  places: number;
}

export class SocketMeter {
  private readonly own = new Meter();

  constructor(
    private readonly rates: SocketRates,
    private readonly address: string,
    private readonly shared: Address | undefined,
  ) {}

  /** Counts a frame of `bytes`. Returns the reason to close the socket, or undefined. */
  take(bytes: number): string | undefined {
    return this.rates.take(this.own, this.shared, bytes);
  }

  /** Called once, when the socket is closed. */
  close(): void {
    if (this.shared !== undefined) this.rates.leave(this.address, this.shared);
  }
}

export class SocketRates {
  private readonly ofSocket: Limits;
  private readonly ofAddress: Limits;
  private readonly perAddressMax: number;
  /** Addresses that have open sockets. */
  private readonly addresses = new Map<string, Address>();

  constructor(
    { frames, bytes, perAddressMax }: SocketRateLimits,
    private readonly time: Pick<TimeShape, "monotonicMs">,
  ) {
    this.perAddressMax = perAddressMax ?? Number.POSITIVE_INFINITY;
    const limits = (whose: string, factor: number): Limits => {
      const limit = (rate: Rate | undefined, unit: string, option: string): Limit | undefined =>
        rate && {
          rate: new RateLimit(
            { perSecond: rate.perSecond * factor, burst: rate.burst * factor },
            time,
          ),
          reason: `More than ${rate.perSecond * factor} ${unit} per second from one ${whose} (${option})`,
        };
      return {
        frames: limit(frames, "frames", "--frames-per-socket"),
        bytes: limit(bytes, "bytes", "--bytes-per-socket"),
      };
    };
    this.ofSocket = limits("socket", 1);
    this.ofAddress = limits("address", ADDRESS_FACTOR);
  }

  /**
   * Takes a place for a handshake from this address, and the socket that it may become. Returns the
   * function that frees it, or undefined if the address has as many as it may.
   */
  enter(address: string): (() => void) | undefined {
    if (this.perAddressMax === Number.POSITIVE_INFINITY || isPrivate(address))
      return () => undefined;
    const known = this.known(address);
    if (known.places >= this.perAddressMax) return undefined;
    known.places += 1;
    return () => {
      known.places -= 1;
      this.forgetIfUnused(address, known);
    };
  }

  /** Returns the meter of a socket that was opened from this address (`addressOf`). */
  open(address: string): SocketMeter {
    const shared = isPrivate(address) ? undefined : this.known(address);
    if (shared !== undefined) shared.sockets += 1;
    return new SocketMeter(this, address, shared);
  }

  /** As `SocketMeter.take`. */
  take(own: Meter, shared: Address | undefined, bytes: number): string | undefined {
    const nowMs = this.time.monotonicMs();
    return (
      over(this.ofSocket, own, nowMs, bytes) ??
      (shared && over(this.ofAddress, shared.meter, nowMs, bytes))
    );
  }

  /** A socket of this address is closed. */
  leave(address: string, shared: Address): void {
    shared.sockets -= 1;
    this.forgetIfUnused(address, shared);
  }

  private known(address: string): Address {
    const known = this.addresses.get(address) ?? { meter: new Meter(), sockets: 0, places: 0 };
    this.addresses.set(address, known);
    return known;
  }

  private forgetIfUnused(address: string, { sockets, places }: Address): void {
    if (sockets === 0 && places === 0) this.addresses.delete(address);
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

/** IPv4: RFC 1918, 6598, 3927, loopback. IPv6 by four groups: loopback, unique and link local. */
const PRIVATE =
  /^(?:10\.|127\.|192\.168\.|169\.254\.|172\.(?:1[6-9]|2\d|3[01])\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|0:0:0:0$|f[cd][0-9a-f]{2}:|fe80:)/i;

const isPrivate = (address: string): boolean => PRIVATE.test(address);
