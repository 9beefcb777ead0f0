/**
 * One process of a simulated installation: its clock, and the one ordered stream on which the
 * broker's answers, deliveries and messages reach it. It can be frozen, thawed and killed at any
 * instant.
 *
 * 1. Incoming data keeps its order, however each piece is delayed, as on one TCP connection.
 * 2. A frozen process runs nothing. Thawed, it gets everything that waited, in order, each with all
 *    the promise work that follows, at one instant.
 * 3. Nothing enters a dead process, and its timers are gone.
 */
import type { TimeShape } from "../../../core/time/Time.ts";
import type { VirtualTime } from "../../../services/memory/VirtualTime.ts";
import type { CrashPoint } from "./crashPoints.ts";
import { Random } from "./Random.ts";

/** What never comes, for the rest of a dead process. One each time: a shared one would leak. */
export const never = (): Promise<never> => new Promise(() => undefined);

/** Answers from the same machine come at once; the rest after at most so long. */
const LATENCY_MS_MAX = 4;

export interface ProcessOptions {
  readonly name: string;
  readonly seed: number;
  readonly base: VirtualTime;
  /** Part of the messages that take any time at all. */
  readonly delayed: number;
  readonly onPoint: (point: CrashPoint, process: SimProcess) => void;
}

export class SimProcess {
  readonly name: string;
  readonly random: Random;
  readonly time: TimeShape;
  alive = true;
  frozen = false;
  /** On top of the usual, while the network is bad. */
  slowMs = 0;
  /** Its wall clock against the broker's. */
  private clockOffsetMs = 0;
  /** What it was before the last jump, and when that was. */
  private before = { offsetMs: 0, atMs: -Infinity };
  private readonly base: VirtualTime;
  private readonly options: ProcessOptions;
  private readonly held: Array<() => void> = [];
  private readonly timers = new Set<() => void>();
  private readonly deaths: Array<() => void> = [];
  private lastArrivalMs = 0;
  private onTheWay = 0;
  private draining = false;
  private ids = 0;

  constructor(options: ProcessOptions) {
    const { name, base, seed } = options;
    this.name = name;
    this.base = base;
    this.options = options;
    this.random = new Random(seed, name);
    this.time = {
      nowMs: () => base.nowMs() + this.clockOffsetMs,
      monotonicMs: base.monotonicMs,
      after: (ms, f) => this.after(ms, f),
      id: () => `${name}-${(++this.ids).toString(36)}-${this.random.int(0, ID_NOISE_MAX)}`,
      random: this.random.next,
    };
  }

  /** True: the process died here, and its caller goes no further. */
  point(name: CrashPoint): boolean {
    if (this.alive) this.options.onPoint(name, this);
    return !this.alive;
  }

  /** Rule 1. */
  enter(f: () => void): void {
    if (!this.alive) return;
    const nowMs = this.base.monotonicMs();
    const arrivalMs = Math.max(this.lastArrivalMs, nowMs + this.latencyMs());
    this.lastArrivalMs = arrivalMs;
    if (arrivalMs <= nowMs && this.onTheWay === 0) return this.take(f);
    this.onTheWay++;
    this.base.after(arrivalMs - nowMs, () => {
      this.onTheWay--;
      this.take(f);
    });
  }

  /** A promise of the broker's, as the process hears of it. */
  hear<A>(promise: Promise<A>): Promise<A> {
    return new Promise((resolve, reject) => {
      promise.then(
        (value) => this.enter(() => resolve(value)),
        (error: unknown) => this.enter(() => reject(error as Error)),
      );
    });
  }

  /** One way, in milliseconds. */
  latencyMs(): number {
    const usual = this.random.chance(this.options.delayed) ? this.random.int(1, LATENCY_MS_MAX) : 0;
    return usual + (this.slowMs === 0 ? 0 : this.random.int(0, this.slowMs));
  }

  onDeath(f: () => void): void {
    this.deaths.push(f);
  }

  /** Rule 3. */
  kill(): void {
    if (!this.alive) return;
    this.alive = false;
    this.held.length = 0;
    for (const cancel of this.timers) cancel();
    this.timers.clear();
    for (const f of this.deaths) f();
  }

  /** Its wall clock jumps. */
  setClock(offsetMs: number): void {
    // Mended twice, once for each jump: the clock it had before is still the one from before.
    if (offsetMs === this.clockOffsetMs) return;
    this.before = { offsetMs: this.clockOffsetMs, atMs: this.base.monotonicMs() };
    this.clockOffsetMs = offsetMs;
  }

  /** The latest that it may have read from its wall clock for what it does now. */
  get wallReadMs(): number {
    const { offsetMs, atMs } = this.before;
    const recent = this.base.monotonicMs() - atMs < ACTED_ON_MS_MAX;
    return this.base.nowMs() + Math.max(this.clockOffsetMs, recent ? offsetMs : this.clockOffsetMs);
  }

  freeze(): void {
    this.frozen = true;
  }

  /** Rule 2. */
  thaw(): void {
    if (!this.frozen) return;
    this.frozen = false;
    if (!this.draining) this.drain();
  }

  private take(f: () => void): void {
    if (!this.alive) return;
    if (this.frozen || this.draining) this.held.push(f);
    else f();
  }

  private drain(): void {
    this.draining = false;
    if (!this.alive || this.frozen) return;
    const next = this.held.shift();
    if (next === undefined) return;
    this.draining = true;
    next();
    // Not a promise: virtual time lets all promise work go on between two timers.
    this.base.after(0, () => this.drain());
  }

  private after(ms: number, f: () => void): () => void {
    let over = false;
    const cancelBase = this.base.after(ms, () => {
      this.timers.delete(cancel);
      this.take(() => {
        if (over) return;
        over = true;
        f();
      });
    });
    const cancel = (): void => {
      over = true;
      this.timers.delete(cancel);
      cancelBase();
    };
    if (this.alive) this.timers.add(cancel);
    else cancel();
    return cancel;
  }
}

/** From a look at the clock to what follows from it: an append on a slow network. */
const ACTED_ON_MS_MAX = 1_500;

/** Ids of one process differ by their count already. */
const ID_NOISE_MAX = 0xffff;
