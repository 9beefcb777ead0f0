/**
 * The agents that run alone, in the control process: an agent is isolated when its turn has ended a
 * worker, or when its turns hold the worker's thread most of the time (`judgeHolds`). Its next
 * inputs run in a separate process, where they affect no other agent.
 *
 * 1. An isolated agent belongs to the worker that owns its shard, whichever that is: every worker
 *    knows of the agent, and the one with the latest epoch passes what arrives for it
 *    (`IsolatedSlot`). The ward starts the agent's process when the first work arrives.
 * 2. A process that ends answers what it had with `ended`. The next one starts after a pause that
 *    grows with each end. One that is frozen is ended (`watchBeats`).
 * 3. An agent that has neither ended nor held a process for `CLEAN_MS`, and has no work in
 *    progress, returns to its worker. If it is isolated again, it stays four times as long, and so on.
 * 4. When the worker ends, so do the processes of its agents: its successor passes everything
 *    again.
 * 5. At most `PROCESSES_MAX` processes run. Another agent takes the process of an idle one. While
 *    all are busy it waits, so an agent that has ended no process is not isolated then.
 * 6. An agent that ends too many processes (`judgeEnds`) is condemned: its next request is answered
 *    `condemned`, and the owner of its shard quarantines it. Only ends that are certainly the
 *    agent's count.
 *
 * `serveWorkers` owns it; `serveIsolation` connects it with the channels.
 */
import type { LogShape } from "../../core/telemetry/Log.ts";
import { interval } from "../../core/time/interval.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import type {
  AgentKey,
  IsolatedAsk,
  IsolatedOwner,
  IsolatedReply,
} from "../../core/input/Isolation.ts";
import { socketKey } from "../../schemas/bus/GatewayMessage.ts";
import type { Stall } from "../watchdog/pausedCode.ts";
import type { Ending } from "../watchdog/reports.ts";
import { AgentRecords } from "./AgentRecords.ts";
import { nameOf, type IsolateRequest } from "./messages.ts";
import { newWard, type Ward } from "./Ward.ts";
import { FROZEN, watchBeats } from "./watchBeats.ts";
import { describeEnd, type WorkerProcess } from "./WorkerProcess.ts";

/** Rule 2. */
const PAUSE_MS_MIN = 100;
/** A start takes a second. An agent that keeps ending its process is quarantined. */
const PAUSE_MS_MAX = 5_000;
/** Rule 5. Each takes some 150 MB. */
const PROCESSES_MAX = 4;
/** Rule 5. Agents that take turns spend a tenth of the time on starts. */
const SERVES_MS_MIN = 10_000;
const LOOK_MS = 1_000;
/** From the request to stop to SIGKILL: another owns the shard then, so nothing more is stored. */
const STOP_MS_MAX = 5_000;

export interface IsolationWardOptions {
  /** Starts a process for an isolated agent of the worker with this number. */
  readonly start: (owner: number) => WorkerProcess;
  readonly time: Pick<TimeShape, "after" | "monotonicMs">;
  readonly log: Pick<LogShape, "info" | "warn" | "error">;
}

/** A worker, as the ward uses it. */
interface IsolationOwner {
  /** An agent is isolated: of this worker, or of another whose shard may move here. */
  readonly isolates: (agent: AgentKey) => void;
  readonly returns: (agent: AgentKey) => void;
}

export class IsolationWard {
  private readonly wards = new Map<string, Ward>();
  private readonly owners = new Map<number, IsolationOwner>();
  private readonly records: AgentRecords;
  /** Also those that no ward has any more. */
  private readonly processes = new Set<WorkerProcess>();
  private stopping = false;
  private last = 0;
  private readonly cancel: () => void;

  constructor(private readonly options: IsolationWardOptions) {
    this.records = new AgentRecords(options.time);
    this.cancel = interval(options.time, LOOK_MS, () => this.look());
  }

  get agents(): ReadonlyArray<AgentKey> {
    return [...this.wards.values()].map(({ agent }) => agent);
  }

  /** A worker starts. Returns the agents that are isolated. */
  join(owner: number, worker: IsolationOwner): ReadonlyArray<AgentKey> {
    this.owners.set(owner, worker);
    return this.agents;
  }

  /** A worker has ended, by the turn of this agent if it is known. */
  ended(owner: number, ending: Ending | undefined): void {
    this.owners.delete(owner);
    // Rule 4.
    for (const ward of this.of(owner)) this.release(ward)?.kill();
    const agent = ending?.turn;
    if (agent === undefined || this.stopping) return;
    this.options.log.warn("an agent has ended its process; it now runs in its own process", {
      class: agent.class,
      name: agent.name,
      reason: ending!.reason,
      ...(!ending!.exactly && { exactly: false }),
    });
    if (ending!.exactly) this.records.ended(agent, ending);
    this.isolate(owner, agent, 1);
  }

  /** A turn has held the thread of a worker that runs on. */
  held(owner: number, stall: Stall): void {
    const { exactly, ms, waitedMs } = stall;
    const agent = { class: stall.className, name: stall.name };
    // The messages of a worker that has ended meanwhile arrive late.
    if (!exactly || this.stopping || !this.owners.has(owner) || this.wards.has(nameOf(agent)))
      return;
    const heldSeconds = this.records.held(agent, {
      worker: owner,
      atMs: this.options.time.monotonicMs() - waitedMs,
      ms,
    });
    // Rule 5.
    const busy = [...this.wards.values()].filter(({ asked }) => asked.size > 0);
    if (heldSeconds === undefined || busy.length >= PROCESSES_MAX) return;
    this.options.log.warn(
      "an agent has held the thread of its process most of the time; it now runs in its own process",
      { ...agent, heldSecondsOfLastMinute: heldSeconds },
    );
    this.isolate(owner, agent, 0);
  }

  ask(owner: number, request: IsolateRequest, answer: (reply: IsolatedReply) => void): void {
    const ward = this.wards.get(nameOf(request.agent));
    if (ward === undefined || request.owner.epoch < (ward.by?.epoch ?? 0) || this.stopping)
      return answer({ kind: "ended" });
    this.own(ward, owner, request.owner);
    const { kind } = request.ask;
    if (request.ask.kind === "sockets" && !ward.serves) {
      for (const info of request.ask.sockets) ward.sockets.set(socketKey(info), info);
      return answer({ kind: "done" });
    }
    if (kind !== "drain" && this.tellsCondemned(ward, answer)) return;
    // Nothing is in a process that does not run.
    if (ward.process === undefined && kind === "drain") return answer({ kind: "ended" });
    const n = ++this.last;
    ward.asked.set(n, { request, answer });
    // It was quarantined when it could have returned.
    if (kind !== "drain") ward.returning = false;
    if (ward.serves) this.pass(ward, n);
    else this.begin(ward);
  }

  /** The shard of the agent is another host's. It stays isolated for its time. */
  lost(owner: number, agent: AgentKey): void {
    const ward = this.wards.get(nameOf(agent));
    if (ward === undefined || ward.owner !== owner) return;
    this.stopInTime(this.release(ward));
  }

  /** The agent runs in its worker again. */
  left(owner: number, agent: AgentKey): void {
    const ward = this.wards.get(nameOf(agent));
    if (ward === undefined || ward.owner !== owner) return;
    this.wards.delete(nameOf(agent));
    // What waited for a process that was not running.
    for (const { answer } of ward.asked.values()) answer({ kind: "ended" });
    this.stopInTime(ward.process);
    for (const [number, worker] of this.owners) if (number !== owner) worker.returns(agent);
    this.options.log.info("an agent no longer runs in its own process", { ...agent });
  }

  /** New code: each agent returns to its worker. */
  returnAll(owner: number): void {
    for (const ward of this.of(owner)) this.return(ward);
  }

  /** The process of an agent has answered. */
  answered(n: number, reply: IsolatedReply): void {
    for (const ward of this.wards.values()) {
      if (ward.yields === n) return this.yielded(ward, reply);
      const asked = ward.asked.get(n);
      if (asked === undefined) continue;
      ward.asked.delete(n);
      return asked.answer(reply);
    }
  }

  /** Resolves when no process is left. */
  async stop(): Promise<void> {
    this.stopping = true;
    this.cancel();
    for (const process of this.processes) this.stopInTime(process);
    await Promise.all([...this.processes].map(({ ended }) => ended));
  }

  kill(): void {
    for (const process of this.processes) process.kill();
  }

  private stopInTime(process: WorkerProcess | undefined): void {
    process?.stop();
    void process?.ended.then(this.options.time.after(STOP_MS_MAX, () => process.kill()));
  }

  /** `ends`: of processes, so far. */
  private isolate(owner: number, agent: AgentKey, ends: number): void {
    const key = { class: agent.class, name: agent.name };
    const cleanMs = this.records.isolated(agent);
    const nowMs = this.options.time.monotonicMs();
    this.wards.set(nameOf(key), newWard(key, { owner, ends, cleanMs, nowMs }));
    for (const worker of this.owners.values()) worker.isolates(key);
  }

  /** Rule 1. The later owner passes the earlier owner's work again. */
  private own(ward: Ward, owner: number, by: IsolatedOwner): void {
    if (ward.owner !== owner) this.release(ward)?.kill();
    ward.owner = owner;
    ward.by = by;
  }

  /** Nothing is under way any more. Returns the process that has to end. */
  private release(ward: Ward): WorkerProcess | undefined {
    const { process } = ward;
    const asked = [...ward.asked.values()];
    ward.asked.clear();
    ward.sockets.clear();
    ward.returning = false;
    ward.process = undefined;
    ward.serves = false;
    ward.yields = undefined;
    for (const { answer } of asked) answer({ kind: "ended" });
    return process;
  }

  private of(owner: number): ReadonlyArray<Ward> {
    return [...this.wards.values()].filter((ward) => ward.owner === owner);
  }

  private begin(ward: Ward): void {
    const { time } = this.options;
    if (ward.process !== undefined || this.stopping) return;
    if (time.monotonicMs() < ward.startsAtMs) return; // `look` starts it
    // Rule 5.
    const running = [...this.wards.values()].filter(({ process }) => process !== undefined);
    if (running.length >= PROCESSES_MAX) return this.makeRoom(running);
    const process = this.options.start(ward.owner);
    ward.process = process;
    this.processes.add(process);
    void process.ended.then(() => this.processes.delete(process));
    process.onReport((report) => {
      if ("ending" in report) ward.ending = report.ending;
      if ("stall" in report) ward.harmedMs = time.monotonicMs();
    });
    watchBeats(time, process, () => {
      ward.ending = FROZEN;
      process.kill();
    });
    void process.serving.then(() => {
      if (ward.process === process) this.serve(ward);
    });
    void process.ended.then((end) => {
      if (ward.process === process) this.processEnded(ward, describeEnd(end));
    });
  }

  private serve(ward: Ward): void {
    ward.serves = true;
    ward.servesSinceMs = this.options.time.monotonicMs();
    const sockets = [...ward.sockets.values()];
    ward.sockets.clear();
    if (sockets.length > 0) this.request(ward, ++this.last, { kind: "sockets", sockets });
    for (const n of ward.asked.keys()) this.pass(ward, n);
  }

  private pass(ward: Ward, n: number): void {
    this.request(ward, n, ward.asked.get(n)!.request.ask);
  }

  private request(ward: Ward, n: number, ask: IsolatedAsk): void {
    ward.process?.send({ isolate: { n, agent: ward.agent, owner: ward.by!, ask } });
  }

  /** Rule 5. One at a time: the process that is taken serves the agent that waits longest. */
  private makeRoom(running: ReadonlyArray<Ward>): void {
    if (running.some(({ yields }) => yields !== undefined)) return;
    const servedMs = ({ servesSinceMs }: Ward): number =>
      this.options.time.monotonicMs() - servesSinceMs;
    const [idle] = running
      .filter((ward) => ward.serves && ward.asked.size === 0 && servedMs(ward) >= SERVES_MS_MIN)
      .toSorted((a, b) => servedMs(b) - servedMs(a));
    if (idle === undefined) return;
    idle.serves = false;
    idle.yields = ++this.last;
    this.request(idle, idle.yields, { kind: "yield" });
  }

  /** Rule 5. Requests that have arrived meanwhile wait for the next process, after other agents. */
  private yielded(ward: Ward, reply: IsolatedReply): void {
    ward.yields = undefined;
    // It does something by itself.
    if (reply.kind !== "drained") return this.serve(ward);
    const { process, asked } = ward;
    ward.process = undefined;
    this.stopInTime(process);
    for (const info of reply.sockets)
      if (!ward.sockets.has(socketKey(info))) ward.sockets.set(socketKey(info), info);
    for (const [n, { request, answer }] of asked)
      if (request.ask.kind === "drain" && asked.delete(n))
        answer({ kind: "drained", sockets: [...ward.sockets.values()] });
    this.wards.delete(nameOf(ward.agent));
    this.wards.set(nameOf(ward.agent), ward);
    this.look();
  }

  private processEnded(ward: Ward, how: string): void {
    const { time, log } = this.options;
    const { ending } = ward;
    ward.process = undefined;
    ward.serves = false;
    ward.yields = undefined;
    ward.ending = undefined;
    if (this.stopping || !this.wards.has(nameOf(ward.agent))) return;
    ward.ends++;
    ward.harmedMs = time.monotonicMs();
    ward.startsAtMs = ward.harmedMs + Math.min(PAUSE_MS_MAX, PAUSE_MS_MIN * 2 ** ward.ends);
    log.warn("an isolated agent has ended its process", {
      ...ward.agent,
      ends: ward.ends,
      reason: ending?.reason ?? how,
    });
    this.records.ended(ward.agent, ending);
    const asked = [...ward.asked.values()];
    ward.asked.clear();
    for (const { answer } of asked)
      if (!this.tellsCondemned(ward, answer)) answer({ kind: "ended" });
  }

  private look(): void {
    const nowMs = this.options.time.monotonicMs();
    for (const ward of this.wards.values()) {
      if (ward.process === undefined && ward.asked.size > 0) this.begin(ward);
      else if (ward.asked.size === 0 && nowMs - ward.harmedMs >= ward.cleanMs) this.return(ward);
    }
  }

  /** Rule 6: reports it once. From then on the owner knows. */
  private tellsCondemned({ agent }: Ward, answer: (reply: IsolatedReply) => void): boolean {
    const reason = this.records.takeCondemnation(agent);
    if (reason === undefined) return false;
    answer({ kind: "condemned", why: "kills", reason });
    return true;
  }

  /** Rule 3. */
  private return(ward: Ward): void {
    const owner = this.owners.get(ward.owner);
    if (ward.returning || owner === undefined) return;
    ward.returning = true;
    owner.returns(ward.agent);
  }
}
