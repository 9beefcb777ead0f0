/** A host of a simulation: the real `Host` on simulated ports, with a disk that outlives it. */
import { cpSync, mkdtempSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { Context, Effect, Exit, Scope } from "effect";
import { Ambient, type AmbientShape } from "../../core/turn/Ambient.ts";
import { Blobs } from "../../core/journal/Blobs.ts";
import { Bus } from "../../core/bus/Bus.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { Databases, type DatabasesShape } from "../../core/database/Databases.ts";
import { DeadLetters } from "../../core/dead/DeadLetters.ts";
import { Inbox } from "../../core/inbox/Inbox.ts";
import { Journal } from "../../core/journal/Journal.ts";
import { Leases } from "../../core/lease/Leases.ts";
import { Quarantines } from "../../core/quarantine/Quarantines.ts";
import { Log } from "../../core/telemetry/Log.ts";
import { Outgoing, type OutgoingShape } from "../../core/outgoing/Outgoing.ts";
import { Cron } from "../../core/schedule/Cron.ts";
import { Timers } from "../../core/schedule/Timers.ts";
import { EmailBinding } from "../../core/mail/EmailBinding.ts";
import { makeMailDrop } from "../../core/mail/mailDrop.ts";
import { MailTransport } from "../../core/mail/MailTransport.ts";
import { Snapshots } from "../../core/journal/Snapshots.ts";
import { Time } from "../../core/time/Time.ts";
import { SILENT } from "../../core/telemetry/observability.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { CronParser } from "../../services/cronParser/CronParser.ts";
import { Host } from "../../services/host/Host.ts";
import { hostServices } from "../../services/host/HostServices.ts";
import { serveIsolated } from "../../services/host/serveIsolated.ts";
import type { IsolateRequest } from "../../services/workers/messages.ts";
import type { OnAsk } from "../../core/input/Isolation.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { bindEnv } from "../../services/module/bindEnv.ts";
import { asyncAmbient, callingAgent } from "../../services/node/AsyncAmbient.ts";
import { gatedCalls } from "../../services/node/gatedCalls.ts";
import { nodeOutgoing } from "../../services/node/NodeOutgoing.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { ErrandActor } from "./Errand.ts";
import type { Installation } from "./Installation.ts";
import { Asker } from "./Asker.ts";
import { Caller } from "./Caller.ts";
import { Payer } from "./Payer.ts";
import { Marcher } from "./Marcher.ts";
import type { SimControl } from "./simControl.ts";
import { simRelay } from "./simMail.ts";
import { simMemory } from "./rig/simMemory.ts";
import { Tape } from "./simRestores.ts";
import { simPorts, type SimPorts } from "./simPorts.ts";
import { never, SimProcess } from "./rig/SimProcess.ts";
import { Board, Ledger, type SubjectEnv } from "./subjects.ts";
import { hostMetrics } from "../kit/hostMetrics.ts";

/** How long a stopping host waits for its turns: shorter than a lease, for quick stops. */
const DRAIN_TIMEOUT_MS = 1_000;
/** Small, so that large images of a run live in their files. */
const RESIDENT_BYTES_MAX = 16 * 1024;
const SWEEP_MS = 500;
/** Longer than an answer takes while all is well. */
const RELEASE_MS = 1_000;

export interface SimHost {
  readonly process: SimProcess;
  readonly ports: SimPorts;
  readonly folder: string | undefined;
  /** In its memory now. */
  readonly agents: () => ReadonlyArray<ActiveAgent>;
  /** Shards that it serves now. */
  readonly shards: () => ReadonlyArray<number>;
  /** As `agents release`, by a client of this host. */
  readonly release: (id: AgentId) => void;
  /** Ends in order: hands everything over. Virtual time has to pass. */
  readonly stop: () => Promise<void>;
}

/** Makes a new, empty disk; undefined where the run has none. */
export const newDisk = ({ folder }: Installation): string | undefined =>
  folder === undefined ? undefined : mkdtempSync(join(folder, "disk-"));

/** What is on a disk at this instant, on another. */
export function copyDisk(installation: Installation, from: string | undefined): string | undefined {
  const to = newDisk(installation);
  if (from !== undefined && to !== undefined && readdirSync(from).length > 0)
    cpSync(from, to, { recursive: true });
  return to;
}

export async function startHost(
  installation: Installation,
  name: string,
  folder: string | undefined,
  control: SimControl,
): Promise<SimHost> {
  const made = await startProcess(installation, name, { folder, control, isAlone: false });
  const { process, ports, agents, services, calls } = made;
  const scope = Effect.runSync(Scope.make());
  let host: Host | undefined;
  void Effect.runPromise(Host.make(services).pipe(Scope.provide(scope))).then((started) => {
    host = started;
  });
  return {
    process,
    ports,
    folder,
    agents: () => {
      for (const agent of agents) if (agent.discarded) agents.delete(agent);
      return [...agents];
    },
    shards: () => host?.shardsOwned ?? [],
    release: (id) =>
      // It is asked again for as long as it is quarantined.
      void calls
        .call(id, { kind: "release" }, { deadlineMs: RELEASE_MS, repeatable: true })
        .catch(() => undefined),
    stop: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  };
}

/** One isolated agent in a process of its own, without a disk. */
export async function startIsolated(
  installation: Installation,
  name: string,
  control: SimControl,
): Promise<{ readonly process: SimProcess; readonly ask: (request: IsolateRequest) => void }> {
  const options = { folder: undefined, control, isAlone: true };
  const { process, services } = await startProcess(installation, name, options);
  let ask: (request: IsolateRequest) => void = () => undefined;
  const onAsk: OnAsk = (f) => {
    ask = ({ n, agent, owner, ask: asked }) =>
      f(agent as AgentId, owner, asked, (reply) => {
        if (process.alive) control.answered(n, reply);
      });
  };
  const scope = Effect.runSync(Scope.make());
  Effect.runSync(serveIsolated(services, onAsk).pipe(Scope.provide(scope)));
  return { process, ask: (request) => ask(request) };
}

async function startProcess(
  installation: Installation,
  name: string,
  {
    folder,
    control,
    isAlone,
  }: {
    readonly folder: string | undefined;
    readonly control: SimControl;
    readonly isAlone: boolean;
  },
) {
  const { broker, weather, observed, seed, time: base } = installation;
  const process = new SimProcess({
    name,
    seed,
    base,
    delayed: weather.rates.delayed,
    onPoint: (point, at) => installation.atPoint(point, at),
  });
  const ports = simPorts(installation, process);
  const agents = new Set<ActiveAgent>();
  const { heapBytesMax, ...memory } = simMemory(installation, process);
  const opened = await openSqliteDatabases({
    folder,
    residentBytesMax: RESIDENT_BYTES_MAX,
    ...(heapBytesMax === undefined ? {} : { heapBytesMax }),
  });
  process.onDeath(() => {
    // What of it still runs in this instant may use its memory a last time.
    base.after(0, () => {
      for (const agent of agents) agent.discard();
      opened.close();
    });
  });
  const calls = new CallClient({
    bus: ports.bus,
    blobs: ports.blobs,
    time: process.time,
    subjects: broker.subjects,
    shards: broker.shards,
    caller: callingAgent,
  });
  const sim: SubjectEnv["sim"] = {
    ran: (run) => {
      // The instant of a death goes on a little; nobody sees it.
      if (!process.alive) return;
      weather.trace.add(`${name} runs ${run.agent} ${run.op} ${run.key} ${run.attempt}`);
      observed.runs.push({ ...run, host: name, atMs: base.nowMs(), wallMs: process.wallReadMs });
    },
    controlled: (errand, action) => {
      if (!process.alive) return;
      weather.bit(`errand: ${action}`);
      weather.trace.add(`${name} hears that ${errand} took ${action}`);
      observed.controls.push({ errand, action, atMs: base.nowMs() });
    },
    asked: (call, step, seq) => {
      const of = `${call} ${step}`;
      const earlier = observed.asked.filter((asked) => asked.step === of).length;
      if (process.alive) {
        weather.trace.add(`${name} asks ${of}`);
        observed.asked.push({ step: of, seq });
      }
      return earlier;
    },
    sleep: (ms) => new Promise((resolve) => void process.time.after(ms, resolve)),
    kill: () => {
      weather.bit("killed by an input");
      installation.crash(process);
      return never();
    },
    spin: (turn) => control.stop(process, turn),
    nowMs: process.time.nowMs,
  };
  const classes: ReadonlyMap<string, AgentClassType> = new Map([
    ["Ledger", Ledger as unknown as AgentClassType],
    ["Board", Board as unknown as AgentClassType],
    ["Errand", ErrandActor as unknown as AgentClassType],
    ["Marcher", Marcher as unknown as AgentClassType],
    ["Caller", Caller as unknown as AgentClassType],
    ["Payer", Payer as unknown as AgentClassType],
    ["Tape", Tape as unknown as AgentClassType],
    ["Asker", Asker as unknown as AgentClassType],
  ]);
  const gated = gatedCalls(calls);
  const relay = simRelay(installation, process);
  const mail = {
    drop: makeMailDrop({ inbox: ports.inbox, time: process.time }),
    binding: new EmailBinding(relay, process.time),
  };
  const env = bindEnv({ sim }, classes, () => gated, mail);
  const outgoing: OutgoingShape = {
    ...nodeOutgoing,
    post: (request) => {
      if (process.point("send:before")) return never();
      observed.posts.push({
        idempotencyKey: request.headers["idempotency-key"]!,
        input: (JSON.parse(request.body) as { id: string }).id,
        atMs: base.nowMs(),
      });
      weather.trace.add(`${name} posts ${request.headers["idempotency-key"]}`);
      if (process.point("send:after")) return never();
      const fails = weather.fateOfRequest() !== "well";
      return process.hear(
        Promise.resolve({ _tag: "Answered", status: fails ? 503 : 200 } as const),
      );
    },
  };
  const ambient: AmbientShape = {
    current: asyncAmbient.current,
    run: (turn, f) => {
      if (turn.owner instanceof ActiveAgent) agents.add(turn.owner);
      return asyncAmbient.run(turn, f);
    },
  };
  const context = Context.make(Journal, ports.journal).pipe(
    Context.add(Inbox, ports.inbox),
    Context.add(Leases, ports.leases),
    Context.add(Quarantines, ports.quarantines),
    Context.add(Snapshots, ports.snapshots),
    Context.add(Blobs, ports.blobs),
    Context.add(Bus, ports.bus),
    Context.add(DeadLetters, ports.deadLetters),
    Context.add(Timers, ports.timers),
    Context.add(Databases, simDatabases(opened.databases, process)),
    Context.add(Cron, new CronParser()),
    Context.add(Outgoing, outgoing),
    Context.add(MailTransport, relay),
    Context.add(Time, process.time),
    Context.add(Ambient, ambient),
    Context.add(Log, installation.logOf(process)),
  );
  const services = Effect.runSync(
    hostServices({
      config: {
        hostId: name,
        subjects: broker.subjects,
        shards: broker.shards,
        drainTimeoutMs: DRAIN_TIMEOUT_MS,
        sweepMs: SWEEP_MS,
      },
      module: () => ({ agents: classes, env }),
      metrics: hostMetrics({
        hibernation: () => weather.bit("hibernated"),
        quarantine: () => weather.bit("quarantined"),
        duplicate: () => weather.bit("duplicate dropped"),
        deadLetter: () => weather.bit("dead letter"),
        activation: (events) =>
          weather.bit(events === 0 ? "activated without replay" : "activated"),
      }),
      calls,
      observability: SILENT,
      endings: control.endings,
      isolation: isAlone ? undefined : control.join(process),
      ...memory,
    }).pipe(Effect.provide(context)),
  );
  return { process, ports, agents, services, calls };
}

/** A dead process closes no file in order: what lies on its disk stays as it is. */
function simDatabases(databases: DatabasesShape, process: SimProcess): DatabasesShape {
  return {
    open: (id) => {
      const opened = databases.open(id);
      const { database } = opened;
      const close = database.close.bind(database);
      const guarded: typeof database.close = (keep) => {
        if (keep === undefined) return close();
        if (process.point("cache:before")) return;
        close(keep);
        process.point("cache:after");
      };
      Object.defineProperty(database, "close", { value: guarded });
      return opened;
    },
    discard: (id) => {
      if (process.alive) databases.discard(id);
    },
    memoryBytes: databases.memoryBytes,
    unusedBytes: databases.unusedBytes,
  };
}
