/**
 * The leases of a control process's workers: claims, renews and releases them for each worker, and
 * keeps them while a worker stalls or is replaced. A stall or a crash of a worker thus moves no
 * shard to another process.
 *
 * 1. A lease belongs to one worker process. Only that process renews and releases it.
 * 2. A worker that lives and does not renew (its thread is held by a turn) keeps its leases: they
 *    are renewed here for as long as `lives` says so. The worker does not use a lease that it does
 *    not know to be renewed: by its own clock it has no lease until its next renewal is answered.
 * 3. The leases of a worker that has ended are renewed for its successor, for at most
 *    `KEPT_MS_MAX`. The successor does not see them in its watch, so it claims them, and each claim
 *    replaces the old lease in one compare-and-set. Other processes see the shard's owner change,
 *    and never a free shard.
 * 4. The successor claims the key of its own (`host.<id>`) after the predecessor's was released, so
 *    that no process counts one host too many. Within `CHOICE_TTLS` the successor has claimed what
 *    is its share. The rest is released.
 * 5. A gateway's lease is released with its process: hosts then close its sockets at once.
 *
 * `serveWorkers` owns it; `channelLeases` asks it.
 */
import { GATEWAY_KEYS, HOST_KEYS } from "../../core/lease/leaseKeys.ts";
import { NotPermitted } from "../../core/bus/Bus.ts";
import type { ClaimResult, Lease, LeaseChange, LeasesShape } from "../../core/lease/Leases.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { interval } from "../../core/time/interval.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type { LeaseAnswer, LeaseRequest } from "./messages.ts";
import { messageOf } from "../../core/errors/thrown.ts";

/** A process starts in a second or two; on a busy machine in some more. */
const KEPT_MS_MAX = 15_000;
/** Rule 4. A claim is refused at most until the next renewal. */
const CHOICE_TTLS = 2;
/** Workers renew at a third of the TTL. Past this part of it one is late. */
const LATE_TTLS = 0.45;
const LOOKS_PER_TTL = 8;

interface LeaseKeeperOptions {
  readonly leases: LeasesShape;
  readonly time: Pick<TimeShape, "after" | "monotonicMs">;
  readonly log: Pick<LogShape, "info" | "warn">;
}

/** One worker process, as the keeper uses it. */
interface LeaseWorker {
  /** Rule 2: its thread may be held, and its process runs. */
  readonly lives: () => boolean;
  readonly onChange: (change: LeaseChange) => void;
}

export interface LeaseCustomer {
  readonly ask: (request: LeaseRequest) => Promise<LeaseAnswer>;
  /** The process has ended. `replaced`: another one with the same number follows. */
  readonly ended: (replaced: boolean) => void;
}

interface Held {
  lease: Lease;
  renewedMs: number;
  renewing: boolean;
}

/** The leases of one process. */
interface Customer extends LeaseWorker {
  readonly number: number;
  readonly held: Map<string, Held>;
  watching: boolean;
}

/** The leases that an ended process has left for its successor. */
interface Left {
  readonly held: Map<string, Held>;
  untilMs: number;
}

export class LeaseKeeper {
  private readonly customers = new Set<Customer>();
  /** By the worker's number. */
  private readonly left = new Map<number, Left>();
  /** What the watch has reported: live keys. */
  private readonly view = new Map<string, LeaseChange>();
  private readonly watch = new AbortController();
  private readonly watched: Promise<void>;
  private readonly cancel: () => void;

  constructor(private readonly options: LeaseKeeperOptions) {
    this.watched = options.leases.watch((change) => this.changed(change), this.watch.signal);
    // The workers that wait for it receive the failure.
    this.watched.catch(() => undefined);
    const { time, leases } = options;
    this.cancel = interval(time, leases.ttlMs / LOOKS_PER_TTL, () => this.look());
  }

  /** A worker process with this number starts. */
  join(number: number, worker: LeaseWorker): LeaseCustomer {
    const customer: Customer = { ...worker, number, held: new Map(), watching: false };
    this.customers.add(customer);
    return {
      ask: async (request) => {
        try {
          return { n: request.n, result: await this.answer(customer, request) };
        } catch (error) {
          return notDone(request, error);
        }
      },
      ended: (replaced) => this.ended(customer, replaced),
    };
  }

  /** Releases what is left. */
  async close(): Promise<void> {
    this.cancel();
    this.watch.abort();
    const all = [...this.left.keys()].map((number) => this.releaseLeft(number));
    await Promise.all(all);
  }

  private async answer(customer: Customer, request: LeaseRequest): Promise<unknown> {
    if (request.ask === "watch") return this.beginWatch(customer);
    if (request.ask === "claim") return this.claim(customer, request.key, request.value);
    const { leases, time } = this.options;
    const held = customer.held.get(request.lease.key);
    // Rule 1.
    const isTheirs = held !== undefined && held.lease.epoch === request.lease.epoch;
    if (request.ask === "release") {
      if (!isTheirs) return undefined;
      customer.held.delete(request.lease.key);
      return leases.release(held.lease);
    }
    if (!isTheirs) return { _tag: request.ask === "renew" ? "Lost" : "Held" };
    if (request.ask === "supersede")
      return this.note(customer, await leases.supersede(held.lease, request.value));
    const startMs = time.monotonicMs();
    const result = await leases.renew(held.lease, request.value);
    if (result._tag === "Lost") forget(customer.held, held);
    else held.renewedMs = startMs;
    return result;
  }

  private async claim(customer: Customer, key: string, value: string): Promise<ClaimResult> {
    const { leases, time } = this.options;
    const left = this.left.get(customer.number);
    if (key.startsWith(HOST_KEYS) && left !== undefined) {
      // Rule 4.
      left.untilMs = time.monotonicMs() + leases.ttlMs * CHOICE_TTLS;
      const own = [...left.held.values()].filter(({ lease }) => lease.key.startsWith(HOST_KEYS));
      for (const each of own) left.held.delete(each.lease.key);
      await Promise.all(own.map(({ lease }) => leases.release(lease)));
    }
    const before = left?.held.get(key);
    if (before === undefined) return this.note(customer, await leases.claim(key, value));
    // Rule 3. Nothing else is to write the key meanwhile.
    before.renewing = true;
    const claimed = await leases.supersede(before.lease, value).finally(() => {
      before.renewing = false; // the lease lives on where this was not answered
    });
    forget(left!.held, before);
    return this.note(customer, claimed);
  }

  private note(customer: Customer, result: ClaimResult): ClaimResult {
    if (result._tag !== "Claimed") return result;
    const { lease } = result;
    const held = { lease, renewedMs: this.options.time.monotonicMs(), renewing: false };
    // The process may have ended since it asked: its successor has the lease then.
    const holder = this.customers.has(customer) ? customer : this.left.get(customer.number);
    if (holder === undefined) void this.options.leases.release(lease);
    else holder.held.set(lease.key, held);
    return result;
  }

  private ended(customer: Customer, replaced: boolean): void {
    const { time, leases } = this.options;
    this.customers.delete(customer);
    for (const [key, { lease }] of customer.held) {
      if (!key.startsWith(GATEWAY_KEYS)) continue;
      // Rule 5.
      customer.held.delete(key);
      void leases.release(lease);
    }
    const { number, held } = customer;
    // A successor that ended before it had claimed everything leaves the rest, too.
    const before = this.left.get(number);
    for (const [key, each] of before?.held ?? []) if (!held.has(key)) held.set(key, each);
    this.left.set(number, { held, untilMs: time.monotonicMs() + KEPT_MS_MAX });
    if (!replaced) void this.releaseLeft(number);
  }

  private async releaseLeft(number: number): Promise<void> {
    const left = this.left.get(number);
    this.left.delete(number);
    if (left === undefined || left.held.size === 0) return;
    const { leases, log } = this.options;
    log.info("leases of a worker that ended are released", {
      worker: number,
      leases: left.held.size,
    });
    await Promise.all([...left.held.values()].map(({ lease }) => leases.release(lease)));
  }

  /** Renews late leases (rules 2 and 3), and releases those that were kept for long enough. */
  private look(): void {
    const { time, leases } = this.options;
    const nowMs = time.monotonicMs();
    const renewLate = (held: Map<string, Held>): void => {
      for (const each of held.values())
        if (!each.renewing && nowMs - each.renewedMs > leases.ttlMs * LATE_TTLS)
          void this.renew(held, each);
    };
    for (const { held, lives } of this.customers) if (lives()) renewLate(held);
    for (const [number, { held, untilMs }] of this.left)
      if (nowMs >= untilMs) void this.releaseLeft(number);
      else renewLate(held);
  }

  private async renew(all: Map<string, Held>, held: Held): Promise<void> {
    const { leases, time } = this.options;
    held.renewing = true;
    const startMs = time.monotonicMs();
    try {
      const result = await leases.renew(held.lease);
      if (result._tag === "Lost") forget(all, held);
      else held.renewedMs = Math.max(held.renewedMs, startMs);
    } catch {
      // The broker is unavailable. The worker notices that by its own renewal.
    } finally {
      held.renewing = false;
    }
  }

  // The watch

  private async beginWatch(customer: Customer): Promise<void> {
    await this.watched;
    if (customer.watching) return;
    customer.watching = true;
    for (const change of this.view.values()) this.report(customer, change);
  }

  private changed(change: LeaseChange): void {
    const { key, value } = change;
    if (value === undefined) this.view.delete(key);
    else this.view.set(key, change);
    for (const { held } of this.left.values()) {
      const kept = held.get(key);
      if (kept !== undefined && isOver(kept, change)) held.delete(key);
    }
    for (const customer of this.customers) if (customer.watching) this.report(customer, change);
  }

  private report(customer: Customer, change: LeaseChange): void {
    // Rule 3.
    if (this.left.get(customer.number)?.held.has(change.key) !== true) customer.onChange(change);
  }
}

/** Another claim of the key, or its end, after the lease was claimed. */
const isOver = ({ lease }: Held, { value, revision }: LeaseChange): boolean =>
  value !== lease.value && revision > lease.epoch;

function forget(all: Map<string, Held>, held: Held): void {
  if (all.get(held.lease.key) === held) all.delete(held.lease.key);
}

/** The answer to a request that failed with `error`. */
export const notDone = ({ n }: LeaseRequest, error: unknown): LeaseAnswer => ({
  n,
  error: messageOf(error),
  isRefusal: error instanceof NotPermitted,
});
