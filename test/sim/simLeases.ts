/**
 * Leases of a simulated process, with what a cluster of brokers does to them. In one run of three a
 * lease can vanish soon after its claim was acked, as nats-server's late expiry markers make it;
 * and the ack of a claim can come after the watch's news of what has become of the lease, since the
 * two come from different servers. Drawn from a stream of its own, so that other runs stay what
 * they were.
 */
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import type { MemoryConnection } from "../../services/memory/MemoryConnection.ts";
import { Random } from "./rig/Random.ts";
import type { SimProcess } from "./rig/SimProcess.ts";
import type { Ask } from "./simPorts.ts";
import type { Weather } from "./rig/Weather.ts";

/** Part of the runs with such leases, and of their claims and renewals that are struck. */
const RUNS = 0.33;
const CLAIMS = 0.25;
const RENEWALS = 0.02;
/** Measured on three servers: a wiped claim was gone within 400 ms. */
const WIPED_MS_MAX = 400;
/** An ack that waits for a server of three that is slow. */
const ACK_LATE_MS_MAX = 600;

export interface LeaseLines {
  /** What the process has asked for arrives, also when it has died since. */
  readonly wire: MemoryConnection;
  /** What it listens to ends with it. */
  readonly line: MemoryConnection;
}

export function simLeases(
  { wire, line }: LeaseLines,
  {
    seed,
    process,
    weather,
    ask,
    lossy,
  }: {
    readonly seed: number;
    readonly process: SimProcess;
    readonly weather: Weather;
    readonly ask: Ask;
    readonly lossy: <A>(f: () => Promise<A>) => Promise<A>;
  },
): LeasesShape {
  const leases = makeMemoryLeases(wire);
  const watched = makeMemoryLeases(line);
  const { time, leases: store } = wire.broker;
  const random = new Random(seed, `${process.name} leases`);
  const isStruckRun = new Random(seed, "leases").chance(RUNS);
  const strikes = (rate: number): boolean => isStruckRun && !weather.calm && random.chance(rate);
  /** By key: the revision of the last end of a lease that the process has heard of. */
  const ends = new Map<string, number>();
  const wipeSoon = (key: string, epoch: number, ms: number): void =>
    void time.after(ms, () => {
      if (store.wipe(key, epoch)) weather.bit("lease wiped after its ack");
    });
  return {
    ...leases,
    claim: async (key, value) => {
      const result = await ask(["lease:before-claim", "lease:after-claim"], () =>
        lossy(async () => {
          const claim = await leases.claim(key, value);
          if (claim._tag !== "Claimed") return claim;
          if (strikes(CLAIMS)) wipeSoon(key, claim.lease.epoch, random.int(0, WIPED_MS_MAX));
          if (strikes(CLAIMS))
            await new Promise<void>((r) => void time.after(random.int(1, ACK_LATE_MS_MAX), r));
          return claim;
        }),
      );
      if (result._tag === "Claimed" && (ends.get(key) ?? 0) > result.lease.epoch)
        weather.bit("claim's ack overtaken by the watch");
      return result;
    },
    renew: (lease, value) =>
      ask(["lease:before-renew", "lease:after-renew"], () =>
        lossy(async () => {
          const result = await leases.renew(lease, value);
          if (result._tag === "Renewed" && strikes(RENEWALS))
            wipeSoon(lease.key, lease.epoch, random.int(0, WIPED_MS_MAX));
          return result;
        }),
      ),
    release: (lease) =>
      ask(["lease:before-release", "lease:after-release"], () => leases.release(lease)),
    list: (prefix) => ask(undefined, () => lossy(() => leases.list(prefix))),
    watch: (onChange, signal) =>
      process.hear(
        watched.watch(
          (change) =>
            process.enter(() => {
              if (signal.aborted) return;
              if (change.value === undefined) ends.set(change.key, change.revision);
              onChange(change);
            }),
          signal,
        ),
      ),
  };
}
