/** Hosts over a broker in memory, under virtual time: called, killed, handed over by hand. */
import { Effect, Layer } from "effect";
import { agentId, type Epoch, type ShardId } from "../../schemas/Address.ts";
import { decodeDeadLetter } from "../../schemas/DeadLetter.ts";
import { decodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { AgentNamespace } from "../../core/namespace/AgentNamespace.ts";
import type { ObservabilityEvent } from "../../core/telemetry/observability.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { agentMetrics } from "../../core/telemetry/AgentMetrics.ts";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { layer as cronLayer } from "../../services/cronParser/CronParser.ts";
import { TimeSlices } from "../../core/time/TimeSlices.ts";
import { hostServices, type HostServices } from "../../services/host/HostServices.ts";
import { Shard } from "../../services/host/Shard.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import type { MemoryConnection } from "../../services/memory/MemoryConnection.ts";
import { memoryLayer } from "../../services/memory/memoryLayer.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { asyncAmbientLayer, callingAgent } from "../../services/node/AsyncAmbient.ts";
import { sqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { collectingLog } from "../kit/system.ts";

const SHARD = 0 as ShardId;
/** Turns of the loop that a call may need without time passing: SQLite's first use has several. */
const LOOPS_MAX = 40;
/** A call that is not answered in this virtual time waits for something that does not come. */
const CALL_MS_MAX = 120_000;

export interface RigOptions {
  /** When virtual time begins, milliseconds since the epoch. */
  readonly startMs?: number;
  readonly seed?: number;
  /** As `HostServices`. */
  readonly memoryInUse?: () => number;
  /** As `HostServices`. */
  readonly isolation?: HostServices["isolation"];
  /** Of the host's local images. Default: in memory only. */
  readonly folder?: string;
}

/** An agent as tests call it: by any of its methods. */
export type AnyStub = Record<string, (...args: unknown[]) => Promise<never>>;

export class JobRig {
  readonly time: VirtualTime;
  readonly broker: MemoryBroker;
  /** What agents emitted, from all hosts: `type`, and the payload. */
  readonly events: ObservabilityEvent[] = [];
  readonly log = collectingLog();
  private readonly agents: ReadonlyMap<string, AgentClassType>;
  private readonly calls: CallClient;
  private readonly folder: string | undefined;
  private readonly own: Pick<RigOptions, "isolation" | "memoryInUse">;
  shard: Shard | undefined;
  private connection: MemoryConnection | undefined;
  private epoch = 0;

  private constructor(agents: Record<string, unknown>, options: RigOptions) {
    this.time = new VirtualTime(options);
    const { memoryInUse, isolation } = options;
    this.folder = options.folder;
    this.own = { ...(memoryInUse && { memoryInUse }), ...(isolation && { isolation }) };
    this.broker = new MemoryBroker({ time: this.time, shards: 1 });
    this.agents = new Map(Object.entries(agents as Record<string, AgentClassType>));
    const client = this.broker.connect("client");
    this.calls = new CallClient({
      bus: makeMemoryBus(client),
      blobs: makeMemoryBlobs(client),
      time: this.time,
      subjects: this.broker.subjects,
      shards: this.broker.shards,
      caller: callingAgent,
    });
  }

  static async make(agents: Record<string, unknown>, options: RigOptions = {}): Promise<JobRig> {
    const rig = new JobRig(agents, options);
    await rig.startHost();
    return rig;
  }

  /** One host, the owner of everything, with nothing in memory. */
  async startHost(): Promise<void> {
    const epoch = ++this.epoch as Epoch;
    const hostId = `host-${epoch}`;
    this.connection = this.broker.connect(hostId);
    const services = await this.servicesOf(hostId, this.connection, this.folder);
    this.shard = new Shard(services, SHARD, { key: "shard.0", value: hostId, epoch }, Infinity);
    await this.shard.start(() => []);
    await this.settled();
  }

  /** Of one process, with databases of its own. */
  servicesOf(hostId: string, connection: MemoryConnection, folder?: string): Promise<HostServices> {
    const { subjects, shards } = this.broker;
    const layer = Layer.mergeAll(
      memoryLayer(connection),
      sqliteDatabases({ folder }),
      asyncAmbientLayer,
      cronLayer,
      Layer.succeed(Log, this.log),
    );
    return Effect.runPromise(
      hostServices({
        config: { hostId, subjects, shards, drainTimeoutMs: 60_000 },
        module: () => ({ agents: this.agents, env: {} }),
        observability: { emit: (event) => void this.events.push(event) },
        metrics: agentMetrics(noMetrics),
        ...this.own,
      }).pipe(Effect.provide(layer), Effect.scoped),
    );
  }

  /** `kill -9`: what is not stored is gone, nothing that still runs has any effect. */
  kill(): void {
    this.connection?.close();
    this.shard?.drop();
    this.shard = undefined;
  }

  /** In order, as when a host is replaced. */
  async handOver(): Promise<void> {
    const gone = this.shard?.handOver(new TimeSlices(this.time));
    this.shard = undefined;
    if (gone !== undefined) await this.finished(gone);
    this.connection?.close();
  }

  /** Idle agents leave memory, as after their time. */
  async hibernate(): Promise<void> {
    await this.pass(31_000);
    await this.sweep();
  }

  /** Who may leave memory does. */
  async sweep(): Promise<void> {
    const swept = this.shard?.sweep(new TimeSlices(this.time));
    if (swept !== undefined) await this.finished(swept);
  }

  get activeAgents(): number {
    return this.shard?.agentsActive ?? 0;
  }

  /** Calls a method of an agent; time passes only if the call needs it. */
  call<A = unknown>(name: string, method: string, ...args: unknown[]): Promise<A> {
    const [className] = this.agents.keys();
    const namespace = new AgentNamespace(className!, () => this.calls);
    const stub = namespace.getByName(name) as unknown as AnyStub;
    return this.finished(stub[method]!(...args));
  }

  /** Lets virtual time pass. */
  async pass(ms: number): Promise<void> {
    await this.time.advance(ms);
    await this.settled();
  }

  /** Lets it pass up to an instant of the wall clock. */
  passTo(wallMs: number): Promise<void> {
    return this.pass(wallMs - this.time.nowMs());
  }

  /** Everything has happened that waits for no timer. */
  async settled(): Promise<void> {
    for (let n = 0; n < 10; n++) await this.time.settle();
  }

  journal(name: string): JournalHead[] {
    const [className] = this.agents.keys();
    return this.broker.journal
      .eventsOf(agentId(className!, name))
      .map(({ data }) => decodeEvent(data).head);
  }

  /** Dead letters: the job's callback, its payload and why. */
  get dead(): Array<{ callback?: string; key: string; payload: unknown; reason: string }> {
    return Array.from(this.broker.deadLetters.all(), ({ data }) => {
      const { head, input } = decodeDeadLetter(data);
      const envelope = decodeEnvelope(input);
      const text = new TextDecoder().decode(envelope.body);
      return {
        ...(envelope.head.type === undefined ? {} : { callback: envelope.head.type }),
        key: envelope.head.key,
        payload: text === "" ? undefined : (JSON.parse(text) as unknown),
        reason: head.reason,
      };
    });
  }

  /** Types of emitted events of jobs, in order. */
  get jobEvents(): string[] {
    return this.events.map(({ type }) => type).filter((type) => /^(schedule|queue):/.test(type));
  }

  private async finished<A>(promise: Promise<A>): Promise<A> {
    let over = false;
    const watched = promise.finally(() => (over = true));
    watched.catch(() => undefined);
    const endMs = this.time.monotonicMs() + CALL_MS_MAX;
    for (
      let stepMs = 1;
      !over && this.time.monotonicMs() < endMs;
      stepMs = Math.min(stepMs + 1, 50)
    ) {
      for (let n = 0; !over && n < LOOPS_MAX; n++) await this.time.settle();
      if (!over) await this.time.advance(stepMs);
    }
    if (!over) throw new Error(`no end within ${CALL_MS_MAX} virtual ms`);
    return watched;
  }
}
