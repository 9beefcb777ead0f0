/** Faults of whole processes in one run, and their repair. Of messages: `Weather`. */
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { addressKey, agentId } from "../../schemas/Address.ts";
import { CRASH_POINTS } from "./rig/crashPoints.ts";
import { LEASE_TTL_MS, type Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import type { SimProcess } from "./rig/SimProcess.ts";
import { VICTIM } from "./workload.ts";

export const FAULTS = [
  "crash host", "stop host", "freeze host", "cut host", "cut gateway", "slow host", "jump clock",
  "lose leases", "crash gateway", "stop broker", "arm crash point", "snapshot", "damage snapshot",
  "damage disk", "damage event", "fill disk",
] as const; // prettier-ignore
export type Fault = (typeof FAULTS)[number];

/** Both ways; schedules of a run are nearer than this. */
const CLOCK_JUMP_MS_MAX = 8_000;
const RESTART_MS_MAX = 2_500;

export class Faults {
  private readonly installation: Installation;
  private readonly random: Random;
  private readonly weights: Readonly<Partial<Record<Fault, number>>>;
  private readonly mends = new Set<() => void>();

  constructor(installation: Installation, weights: Faults["weights"]) {
    this.installation = installation;
    this.weights = weights;
    this.random = new Random(installation.seed, "faults");
  }

  strike(): void {
    const fault = this.random.weighted(this.weights);
    if (!this.happen(fault)) return;
    this.installation.weather.trace.add(`fault: ${fault}`);
    this.installation.weather.bit(fault);
  }

  /** Everything that is broken is mended, now. */
  heal(): void {
    for (const mend of this.mends) mend();
    this.mends.clear();
    const { installation } = this;
    installation.armed = undefined;
    installation.weather.calm = true;
  }

  /** Starts what has been down for its time. Called after each step. */
  restartLater(): void {
    const { installation, random } = this;
    for (const at of [...installation.hosts, ...installation.gateways]) {
      if (at.now !== undefined || this.restarting.has(at.name)) continue;
      this.restarting.add(at.name);
      installation.time.after(random.int(0, RESTART_MS_MAX), () => {
        this.restarting.delete(at.name);
        if (at.now === undefined) this.start(at.name);
      });
    }
  }
  private readonly restarting = new Set<string>();

  private start(name: string): void {
    const { installation } = this;
    for (const at of installation.hosts) if (at.name === name) void installation.startHost(at);
    for (const at of installation.gateways) if (at.name === name) installation.startGateway(at);
  }

  /** False when there is nothing to break. */
  private happen(fault: Fault): boolean {
    const { installation, random } = this;
    const { broker } = installation;
    const host = random.pick(
      installation.hostsAlive.length > 0 ? installation.hostsAlive : [undefined],
    );
    const gateway = random.pick(
      installation.gatewaysAlive.length > 0 ? installation.gatewaysAlive : [undefined],
    );
    switch (fault) {
      case "crash gateway":
        if (gateway !== undefined) installation.crash(gateway.process);
        return gateway !== undefined;
      case "cut gateway":
        if (gateway !== undefined) this.until(random.int(50, 2_000), gateway.ports.cut());
        return gateway !== undefined;
      case "stop broker":
        broker.stop();
        this.until(random.int(50, 1_500), () => broker.start());
        return true;
      case "arm crash point":
        installation.armed = random.pick(CRASH_POINTS);
        return true;
      case "damage snapshot":
        return this.damageSnapshot();
      case "damage disk":
        return this.damageDisk();
      case "damage event":
        return this.damageEvent();
    }
    if (host === undefined) return false;
    const { process } = host;
    switch (fault) {
      case "crash host":
        installation.crash(process);
        return true;
      case "stop host":
        void installation.stop(installation.hosts.find(({ now }) => now === host)!);
        return true;
      case "freeze host":
        process.freeze();
        this.until(random.int(LEASE_TTL_MS * 0.3, LEASE_TTL_MS * 2.5), () => process.thaw());
        return true;
      case "cut host":
        this.until(random.int(50, LEASE_TTL_MS * 2), host.ports.cut());
        return true;
      case "slow host":
        process.slowMs = random.int(20, 600);
        this.until(random.int(500, 3_000), () => (process.slowMs = 0));
        return true;
      case "jump clock":
        this.jump(process);
        return true;
      case "fill disk": {
        const { folder } = host;
        if (folder === undefined) return false;
        installation.full.add(folder);
        this.until(random.int(1_000, 6_000), () => installation.full.delete(folder));
        return true;
      }
      case "lose leases":
        broker.leases.expire(process.name);
        return true;
      case "snapshot": {
        const agent = random.pick(host.agents().length > 0 ? host.agents() : [undefined]);
        if (agent === undefined || agent.discarded || agent.image.seq === 0) return false;
        const data = agent.image.encode(agent.database.image());
        host.ports.snapshots.put(agent.id, data).catch(() => undefined);
        return true;
      }
    }
  }

  private until(ms: number, mend: () => void): void {
    const once = (): void => {
      if (this.mends.delete(once)) mend();
    };
    this.mends.add(once);
    this.installation.time.after(ms, once);
  }

  private jump(process: SimProcess): void {
    this.installation.observed.clockJumped = true;
    process.setClock(this.random.int(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX));
    this.mends.add(() => process.setClock(0));
  }

  private damageSnapshot(): boolean {
    const { snapshots } = this.installation.broker;
    const key = this.random.pick([...snapshots.keys(), undefined]);
    const newest = key === undefined ? undefined : snapshots.get(key)?.at(-1);
    if (newest !== undefined) this.flip(newest);
    return newest !== undefined;
  }

  private damageDisk(): boolean {
    const disk = this.random.pick([...this.installation.disks, undefined]);
    const files = disk === undefined ? [] : filesOf(disk);
    const file = this.random.pick([...files, undefined]);
    if (file === undefined) return false;
    const bytes = readFileSync(file);
    if (bytes.length === 0) return false;
    this.flip(bytes);
    writeFileSync(file, bytes);
    return true;
  }

  /** Once a run. */
  private damageEvent(): boolean {
    const { broker, observed } = this.installation;
    const id = agentId("Ledger", VICTIM);
    const events = broker.journal.eventsOf(id);
    if (events.length === 0 || observed.damaged.size > 0) return false;
    const event = this.random.pick(events);
    this.flip(event.data);
    // A snapshot past the damage would do without the event.
    broker.snapshots.delete(addressKey(id));
    observed.damaged.set(VICTIM, event.seq);
    return true;
  }

  private flip(bytes: Uint8Array): void {
    const at = this.random.int(0, bytes.length - 1);
    bytes[at]! ^= 1 << this.random.int(0, 7);
  }
}

/** Every file below a folder, in order. */
export const filesOf = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
