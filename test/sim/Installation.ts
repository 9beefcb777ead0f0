/** A whole installation of a simulation: a broker in memory, hosts with disks, gateways. */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import { decodeQuarantineMark } from "../../schemas/QuarantineMark.ts";
import { decodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import type { VirtualTime } from "../../services/memory/VirtualTime.ts";
import type { CrashPoint } from "./rig/crashPoints.ts";
import { Observed } from "./rig/Observed.ts";
import { Random } from "./rig/Random.ts";
import { startGateway, type SimGateway } from "./simGateway.ts";
import { SimControl } from "./simControl.ts";
import { copyDisk, newDisk, startHost, type SimHost } from "./simHost.ts";
import type { SimProcess } from "./rig/SimProcess.ts";
import type { Weather } from "./rig/Weather.ts";

/** Few, so that each host has some and every take-over moves several agents. */
export const SHARDS = 4;
/** Short, so that leases run out within a run. */
export const LEASE_TTL_MS = 1_500;

export interface InstallationOptions {
  readonly seed: number;
  readonly time: VirtualTime;
  readonly weather: Weather;
  /** For the hosts' disks; undefined: they have none. */
  readonly folder: string | undefined;
  readonly hosts: number;
  readonly gateways: number;
}

/** A machine that runs one host or gateway after the other. */
export interface Place<P> {
  readonly name: string;
  now: P | undefined;
  /** The host's control process, while the machine lives. */
  control?: SimControl | undefined;
  /** Processes that it has had. */
  count: number;
}

export class Installation {
  readonly seed: number;
  readonly time: VirtualTime;
  readonly weather: Weather;
  readonly broker: MemoryBroker;
  readonly observed = new Observed();
  readonly folder: string | undefined;
  readonly hosts: ReadonlyArray<Place<SimHost>>;
  readonly gateways: ReadonlyArray<Place<SimGateway>>;
  /** Objects of the archive, by name. */
  readonly archived = new Map<string, Uint8Array>();
  /** Folders of disks that have no room. */
  readonly full = new Set<string>();
  /** The next process that comes to this point dies there. */
  armed: CrashPoint | undefined;
  /** Points that a process came to, and those where one died. */
  readonly passed = new Set<CrashPoint>();
  readonly diedAt: CrashPoint[] = [];
  private readonly random: Random;
  private readonly diskOf = new Map<string, string | undefined>();

  constructor(options: InstallationOptions) {
    const { seed, time, weather, folder } = options;
    this.seed = seed;
    this.time = time;
    this.weather = weather;
    this.folder = folder;
    this.random = new Random(seed, "installation");
    this.broker = new MemoryBroker({ time, shards: SHARDS, leaseTtlMs: LEASE_TTL_MS });
    this.hosts = Array.from({ length: options.hosts }, (_, n) => place(`host-${n}`));
    this.gateways = Array.from({ length: options.gateways }, (_, n) => place(`gateway-${n}`));
    const { inbox } = this.broker;
    const publish = inbox.publish.bind(inbox);
    inbox.publish = (id, data) => {
      const { key } = decodeEnvelope(data).head;
      const copies = this.observed.copies.get(key);
      if (copies === undefined) this.observed.copies.set(key, [time.nowMs()]);
      else copies.push(time.nowMs());
      return publish(id, data);
    };
    this.watchLeases();
    this.broker.journal.watch(({ id, event }) =>
      weather.trace.add(`stored ${id.class}/${id.name} ${event.seq}`),
    );
    if (weather.bug?.blocksShard === true) this.blockOnNak();
  }

  async startHost(at: Place<SimHost>): Promise<void> {
    const disk = this.diskOf.get(at.name) ?? newDisk(this);
    this.diskOf.delete(at.name);
    const name = `${at.name}.${++at.count}`;
    this.weather.trace.add(`${name} starts`);
    this.observed.disruptions++;
    at.control ??= new SimControl(this, at.name, at.count);
    at.now = await startHost(this, name, disk, at.control);
  }

  startGateway(at: Place<SimGateway>): void {
    const name = `${at.name}-${++at.count}`;
    this.weather.trace.add(`${name} starts`);
    at.now = startGateway(this, name);
  }

  /** The operator releases agents that were quarantined for what ended processes. */
  releaseQuarantined(): void {
    for (const { id, data } of this.broker.quarantines.values()) {
      const { kind, untilMs } = decodeQuarantineMark(data);
      if (kind === "kills" && untilMs > this.time.nowMs()) this.hostsAlive[0]?.release(id);
    }
  }

  get hostsAlive(): ReadonlyArray<SimHost> {
    return this.hosts.flatMap(({ now }) => (now?.process.alive === true ? [now] : []));
  }
  get gatewaysAlive(): ReadonlyArray<SimGateway> {
    return this.gateways.flatMap(({ now }) => (now?.process.alive === true ? [now] : []));
  }

  /** The agent holds the thread of the worker that has it in memory most of the time. */
  hold(id: AgentId): void {
    const at = this.hosts.find(({ now }) =>
      now?.agents().some((agent) => addressKey(agent.id) === addressKey(id)),
    );
    at?.control?.hold(id);
  }

  /** Kills a process. Its leases stay until they run out; its disk stays, or does not. */
  crash(process: SimProcess, disksKept = DISKS_KEPT): void {
    if (!process.alive) return;
    this.weather.trace.add(`${process.name} dies`);
    for (const at of this.hosts) {
      if (at.now?.process !== process) continue;
      if (this.random.chance(disksKept)) this.diskOf.set(at.name, copyDisk(this, at.now.folder));
      at.now = undefined;
      at.control?.kill();
      at.control = undefined;
    }
    for (const at of this.gateways) if (at.now?.process === process) at.now = undefined;
    process.kill();
  }

  /** The worker of a machine, or the process of an isolated agent, is ended. The machine stays. */
  endWorker(process: SimProcess): void {
    if (!process.alive) return;
    this.weather.trace.add(`${process.name} is ended`);
    for (const at of this.hosts) {
      if (at.now?.process !== process) continue;
      this.diskOf.set(at.name, copyDisk(this, at.now.folder));
      at.now = undefined;
    }
    process.kill();
  }

  /** Stops a host in order and keeps its disk. Virtual time has to pass. */
  async stop(at: Place<SimHost>): Promise<void> {
    const { now } = at;
    if (now === undefined) return;
    await now.stop();
    if (at.now !== now) return;
    this.diskOf.set(at.name, copyDisk(this, now.folder));
    this.weather.trace.add(`${now.process.name} stopped`);
    at.now = undefined;
    now.process.kill();
  }

  /** Disks of the hosts that are not running. */
  get disks(): ReadonlyArray<string> {
    return [...this.diskOf.values()].filter((disk) => disk !== undefined);
  }

  atPoint(point: CrashPoint, process: SimProcess): void {
    this.passed.add(point);
    if (this.armed !== point) return;
    this.armed = undefined;
    this.diedAt.push(point);
    this.weather.bit(`died at ${point}`);
    this.crash(process);
  }

  /** Lines go to the trace. A line that no host may ever log is a defect. */
  logOf(process: SimProcess): LogShape {
    const add = (level: string) => (message: string, fields?: unknown) => {
      const { outcome } = (fields ?? {}) as { outcome?: unknown };
      this.weather.trace.add(`${process.name} ${level} ${message}`);
      if (outcome === "Defect" || DEFECTS.test(message))
        this.observed.defects.push(`${process.name}: ${message} ${JSON.stringify(fields)}`);
    };
    return { debug: () => undefined, info: add("info"), warn: add("warn"), error: add("error") };
  }

  /** Notes each lease that ended sooner than it would have expired, without a release. */
  private watchLeases(): void {
    const heldMs = new Map<string, number>();
    this.broker.leases.watch(({ key, value, released }) => {
      const atMs = this.time.nowMs();
      if (value !== undefined) return void heldMs.set(key, atMs);
      const endsMs = (heldMs.get(key) ?? 0) + LEASE_TTL_MS;
      if (released !== true && atMs < endsMs) this.observed.leasesCut.push({ key, atMs });
    });
  }

  /** A planted bug: a nak makes its shard wait. */
  private blockOnNak(): void {
    const { inbox } = this.broker;
    const putOff = inbox.putOff.bind(inbox);
    inbox.putOff = (lane, seq, delayMs) => {
      const offer = lane.offer.bind(lane);
      const held: Array<Parameters<typeof offer>[0]> = [];
      Object.assign(lane, { offer: (input: (typeof held)[number]) => void held.push(input) });
      this.time.after(delayMs + SHARD_BLOCKED_MS, () => {
        Object.assign(lane, { offer });
        for (const input of held) lane.offer(input);
      });
      putOff(lane, seq, delayMs);
    };
  }
}

const place = <P>(name: string): Place<P> => ({ name, now: undefined, count: 0 });

/** When a machine dies, half of the disks come back as they were. */
const DISKS_KEPT = 0.5;
/** Longer than any backoff of a run. */
const SHARD_BLOCKED_MS = 20_000;
/** A host that says one of these has met what can't be. */
const DEFECTS = /^a call failed$|could not be finished|could not be handled/;
