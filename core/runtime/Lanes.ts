/**
 * The work that an agent does later: its schedules, its queue, and the lanes of durable calls,
 * webhooks, mail and signals. Each is created on first use: most agents in memory have none, and
 * all six take more memory than the rest of such an agent.
 *
 * 1. Stored work is never missed: an agent whose database may have one of their tables gets all six
 *    when it starts, and they read them.
 * 2. Users' SQL reaches the tables through `AgentSql`, which makes the scheduler before it runs the
 *    SQL, so the scheduler knows what was there before.
 *
 * Part of `ActiveAgent`.
 */
import { AgentDiscarded } from "../errors/errors.ts";
import { messageOf } from "../errors/thrown.ts";
import { CallLane } from "../durableCall/CallLane.ts";
import { FIBER_ALARM } from "../schedule/ownAlarms.ts";
import { AbortSource } from "../lazyFetch/AbortSource.ts";
import type { InputHandle } from "../inbox/Inbox.ts";
import { MailLane, type MailLaneParts } from "../outgoing/MailLane.ts";
import {
  OutgoingLane,
  type OutgoingAgent,
  type OutgoingLaneParts,
} from "../outgoing/OutgoingLane.ts";
import { CALL_KEYS, MAIL_KEYS, SIGNAL_KEYS, WEBHOOK_KEYS } from "../journal/laneKeys.ts";
import { QueueLane } from "../queue/QueueLane.ts";
import type { ScheduleAgent } from "../schedule/runSchedule.ts";
import { Scheduler, type SchedulerPorts } from "../schedule/Scheduler.ts";
import { SignalLane, type SignalLaneParts } from "../workflow/SignalLane.ts";
import { mergeTriggers, type CommitTriggers } from "../turn/CommitTriggers.ts";

interface LanesAgent extends Omit<OutgoingAgent, "options">, Omit<ScheduleAgent, "options"> {
  readonly options: OutgoingAgent["options"] & ScheduleAgent["options"];
  readonly apis: { readonly fibers: { recoverFirst(): Promise<void> } };
}

interface LanesParts extends MailLaneParts, OutgoingLaneParts, SignalLaneParts {
  readonly jobs: SchedulerPorts;
}

/** How the names of their tables begin. */
const TABLES = "svc_agents_";

export class Lanes {
  readonly #agent: LanesAgent;
  readonly #parts: LanesParts;
  #scheduler: Scheduler | undefined;
  #queue: QueueLane | undefined;
  #outgoing: OutgoingLane | undefined;
  #mail: MailLane | undefined;
  #signals: SignalLane | undefined;
  #calls: CallLane | undefined;
  /** The lanes in use; undefined while there is none. Each commit asks them. */
  #made: Array<Scheduler | QueueLane> | undefined;
  #stopped = false;
  #leaving: AbortSource | undefined;

  constructor(agent: LanesAgent, parts: LanesParts) {
    this.#agent = agent;
    this.#parts = parts;
  }

  get scheduler(): Scheduler {
    return (this.#scheduler ??= this.#add(new Scheduler(this.#agent, this.#parts.jobs)));
  }
  get queue(): QueueLane {
    return (this.#queue ??= this.#add(new QueueLane(this.#agent, this.#parts.jobs)));
  }
  get outgoing(): OutgoingLane {
    return (this.#outgoing ??= this.#add(new OutgoingLane(this.#agent, this.#parts)));
  }
  get mail(): MailLane {
    return (this.#mail ??= this.#add(new MailLane(this.#agent, this.#parts)));
  }
  get signals(): SignalLane {
    return (this.#signals ??= this.#add(new SignalLane(this.#agent, this.#parts)));
  }
  get calls(): CallLane {
    return (this.#calls ??= this.#add(new CallLane(this.#agent, this.#parts.jobs)));
  }

  /** Fires when the agent leaves memory. Created on first use. */
  get leaving(): AbortSource {
    return (this.#leaving ??= new AbortSource());
  }

  /** Called before any user code runs (`Scheduler.load`). */
  load(): void {
    if (this.#mayHold) this.scheduler.load();
  }

  /** Called before `onStart`. Recovers fibers if their alarm says that there may be some. */
  async recoverFibers(): Promise<void> {
    if (this.#scheduler?.isKnown(FIBER_ALARM)) await this.#agent.apis.fibers.recoverFirst();
  }

  /** The agent has started: due and waiting work begins. */
  start(): void {
    if (this.#mayHold) {
      this.scheduler.start();
      const { queue, outgoing, mail, signals, calls } = this;
      for (const lane of [queue, outgoing, mail, signals, calls]) lane.kick();
    } else this.#scheduler?.start();
  }

  /** Takes the trigger of a job from the inbox. The agent's own tables say what runs. */
  offer(kind: "queue" | "schedule", key: string, handle: InputHandle): void {
    try {
      if (kind === "schedule") this.scheduler.offer(key, handle);
      else this.laneOf(key).offer(key, handle);
    } catch (error) {
      // If a table can't be read (a damaged file, for example), the agent restarts and the trigger
      // is delivered again.
      this.#agent.abort(`the trigger of a job can't be looked up: ${messageOf(error)}`);
    }
  }

  /** The lane of a job's key. */
  laneOf(key: string): QueueLane {
    switch (key.slice(0, key.indexOf(":"))) {
      case WEBHOOK_KEYS:
        return this.outgoing;
      case MAIL_KEYS:
        return this.mail;
      case SIGNAL_KEYS:
        return this.signals;
      case CALL_KEYS:
        return this.calls;
      default:
        return this.queue;
    }
  }

  /** The triggers that the next event needs at the broker (`Triggers`). */
  takeTriggers(): CommitTriggers | undefined {
    if (this.#made === undefined) return undefined;
    return mergeTriggers(...this.#made.map((lane) => lane.takeTriggers()));
  }

  /** Forgets cached facts about their tables, which may have been rolled back. */
  forget(): void {
    for (const lane of this.#made ?? []) lane.forget();
  }

  /** Begins no more work; running work continues. */
  stop(): void {
    this.#stopped = true;
    for (const lane of this.#made ?? []) lane.stop();
  }

  /** The agent leaves memory: this process drops its timers, and who waits for a call of it. */
  retire(): void {
    this.#scheduler?.stop();
    this.#calls?.leave();
    this.#leaving?.fire(new AgentDiscarded());
  }

  /** The agent was destroyed: drops all work. */
  destroy(): void {
    for (const lane of this.#made ?? []) lane.destroy();
  }

  /** Rule 1. */
  get #mayHold(): boolean {
    return this.#agent.database.mayHaveTable(TABLES);
  }

  #add<A extends Scheduler | QueueLane>(lane: A): A {
    if (this.#stopped) lane.stop();
    (this.#made ??= []).push(lane);
    return lane;
  }
}
