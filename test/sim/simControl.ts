/**
 * The control process of a simulated machine, as far as the machine's worker and its isolated
 * agents are concerned: the real ward and the real channels between the three, and what the
 * watchdog knows of turns that ended a process. It dies with the machine.
 */
import type { LastEnding, LastEndings } from "../../core/input/Unbegun.ts";
import type { AgentKey, Isolation } from "../../core/input/Isolation.ts";
import type { Ending } from "../../services/watchdog/reports.ts";
import { ChannelIsolation } from "../../services/workers/ChannelIsolation.ts";
import { IsolationWard } from "../../services/workers/IsolationWard.ts";
import type { FromWorker, IsolateRequest, Serving } from "../../services/workers/messages.ts";
import type { WorkerEnd, WorkerProcess } from "../../services/workers/WorkerProcess.ts";
import type { Installation } from "./Installation.ts";
import { never, type SimProcess } from "./rig/SimProcess.ts";
import { startIsolated } from "./simHost.ts";

/** A turn that holds its thread. */
export interface HeldTurn {
  readonly class: string;
  readonly name: string;
  readonly turn: string;
  readonly key: string;
  readonly attempt: number;
}

/** The only worker. */
const WORKER = 0;
/** More than an agent may hold the thread in a minute (`judgeHolds`). */
const HELD_MS = 40_000;

export class SimControl {
  readonly endings: LastEndings;
  private readonly installation: Installation;
  private readonly name: string;
  private readonly ward: IsolationWard;
  private readonly noted = new Map<string, LastEnding>();
  private worker: SimProcess | undefined;
  private ending: Ending | undefined;
  private endedHost: string | undefined;
  private isolated = 0;

  /** `number`: of the machine's first process since it began. */
  constructor(installation: Installation, name: string, number: number) {
    this.installation = installation;
    this.name = `${name}.from-${number}`;
    const { noted } = this;
    this.endings = {
      get any() {
        return noted.size > 0;
      },
      of: (id, key) => noted.get(placeOf(id, key)),
      forget: (id, key) => void noted.delete(placeOf(id, key)),
    };
    this.ward = new IsolationWard({
      time: installation.time,
      log: { info: this.trace, warn: this.trace, error: this.trace },
      start: () => this.startProcess(),
    });
  }

  /** The machine's worker begins. */
  join(process: SimProcess): Isolation {
    const isolation = new ChannelIsolation((message) =>
      this.after(() => this.hear(process, isolation, message)),
    );
    const isolated = this.ward.join(WORKER, {
      isolates: (agent) => process.enter(() => isolation.isolates(agent)),
      returns: (agent) => process.enter(() => isolation.returned(agent)),
    });
    isolation.begin({ isolated, endedHost: this.endedHost });
    this.worker = process;
    this.endedHost = undefined;
    process.onDeath(() => {
      this.ward.ended(WORKER, this.ending);
      this.ending = undefined;
      this.worker = undefined;
    });
    return isolation;
  }

  /** The watchdog ends a process whose thread this turn holds. */
  stop(process: SimProcess, turn: HeldTurn): Promise<never> {
    const { installation } = this;
    if (!process.alive) return never();
    const isWorker = process === this.worker;
    const ending = { reason: "its turn held the thread", turn, exactly: true };
    installation.weather.bit(isWorker ? "stopped in mid-turn" : "stopped in mid-turn, alone");
    installation.observed.stopped.push({
      ...turn, host: process.name, machine: this.name, isWorker, atMs: installation.time.nowMs(),
    }); // prettier-ignore
    this.noted.set(placeOf(turn, turn.key), { reason: ending.reason, attempt: turn.attempt });
    if (isWorker) {
      this.ending = ending;
      this.endedHost = process.name;
    } else this.reports.get(process)?.(ending);
    installation.endWorker(process);
    return never();
  }

  /** The watchdog reports that the agent has held the worker's thread most of the time. */
  hold({ class: className, name }: AgentKey): void {
    const before = this.ward.agents.length;
    this.ward.held(WORKER, { className, name, ms: HELD_MS, waitedMs: 0, exactly: true });
    if (this.ward.agents.length > before)
      this.installation.weather.bit("isolated while its worker runs");
  }

  /** The machine dies. */
  kill(): void {
    void this.ward.stop();
    this.ward.kill();
  }

  private hear(process: SimProcess, isolation: ChannelIsolation, message: FromWorker): void {
    if (!process.alive) return;
    if ("left" in message) this.ward.left(WORKER, message.left);
    else if ("lost" in message) this.ward.lost(WORKER, message.lost);
    else if ("isolate" in message) {
      const { n } = message.isolate;
      this.ward.ask(WORKER, message.isolate, (reply) =>
        process.enter(() => isolation.answered({ n, reply })),
      );
    }
  }

  private readonly reports = new Map<SimProcess, (ending: Ending) => void>();

  private startProcess(): WorkerProcess {
    let process: SimProcess | undefined;
    let isOver = false;
    let serve!: (serving: Serving) => void;
    let end!: (end: WorkerEnd) => void;
    let ask!: (request: IsolateRequest) => void;
    let onReport: Parameters<WorkerProcess["onReport"]>[0] = () => undefined;
    const kill = (): void => {
      isOver = true;
      process?.kill();
    };
    const name = `${this.name}.alone-${++this.isolated}`;
    this.installation.weather.trace.add(`${name} starts`);
    void startIsolated(this.installation, name, this).then((started) => {
      ({ process } = started);
      ask = started.ask;
      this.reports.set(process, (ending) => onReport({ ending }));
      process.onDeath(() => end({ code: null, signal: "SIGKILL" }));
      if (isOver) kill();
      else this.after(() => serve({ admin: "" }));
    });
    return {
      pid: undefined,
      serving: new Promise((resolve) => (serve = resolve)),
      ended: new Promise((resolve) => (end = resolve)),
      send: (message) => {
        if ("isolate" in message) process?.enter(() => ask(message.isolate));
      },
      onMessage: () => undefined,
      onReport: (f) => void (onReport = f),
      stop: kill,
      terminate: kill,
      kill,
    };
  }

  /** An isolated process has answered. */
  answered(...answer: Parameters<IsolationWard["answered"]>): void {
    this.after(() => this.ward.answered(...answer));
  }

  /** Over a channel. */
  private after(f: () => void): void {
    this.installation.time.after(0, f);
  }

  private readonly trace = (message: string): void =>
    this.installation.weather.trace.add(`${this.name} says ${message}`);
}

const placeOf = ({ class: ofClass, name }: AgentKey, key: string): string =>
  `${ofClass}/${name}/${key}`;
