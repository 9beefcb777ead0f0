/**
 * The ports of one agent in memory: what the agent is made of, where its commits and outputs go,
 * and where its mailbox reads and answers. They are methods of one small object rather than
 * closures: a host has thousands of agents in memory, and some forty functions each would outweigh
 * the agent.
 *
 * Made by `activate`. Notifications go on to the `AgentSupervisor`, which decides whether the agent
 * stays in memory.
 */
import type { AgentId, Epoch, Sequence } from "../../schemas/Address.ts";
import type { InputAnswer } from "../../schemas/bus/CallReply.ts";
import type { GatewayMessage } from "../../schemas/bus/GatewayMessage.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { storeInput } from "../../core/inbox/storeInput.ts";
import type { Commit } from "../../core/journal/encodeCommit.ts";
import type { AppendResult, StoredEvent } from "../../core/journal/Journal.ts";
import { NO_MAIL_TRANSPORT } from "../../core/mail/MailTransport.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AgentClassType, ActiveAgentParts } from "../../core/runtime/AgentParts.ts";
import type { AgentOutlet } from "../../core/turn/AgentOutlet.ts";
import { Committer } from "../../core/turn/Committer.ts";
import type { CommitterHost } from "../../core/turn/writeBatch.ts";
import type { MailboxHost } from "../../core/input/Mailbox.ts";
import type { InputHandle } from "../../core/inbox/Inbox.ts";
import type { Rebuilt } from "../../core/journal/rebuildAgent.ts";
import type { Meter } from "../../core/telemetry/Usage.ts";
import type { SchedulerPorts } from "../../core/schedule/Scheduler.ts";
import type { Turn } from "../../core/turn/Turn.ts";
import type { TurnEnd } from "../../core/turn/TurnEnd.ts";
import { ceilingOf, type CeilingName } from "../../core/turn/Ceilings.ts";
import { turnSecondsOf } from "../../core/turn/TurnLimits.ts";
import { WriteLimits } from "../../core/turn/WriteLimits.ts";
import { AgentLog } from "./AgentLog.ts";
import { publishState, sendToGateway } from "./agentOutlet.ts";
import type { GivenUp } from "../../core/dead/DeadLetters.ts";
import { deadLetter } from "./deadLetter.ts";
import type { HostServices } from "./HostServices.ts";
import { reportTurn } from "./reportTurn.ts";
import { sendAnswer } from "./sendAnswer.ts";

/** Keeps one agent in memory and is notified of what ends its stay. Implemented by `AgentSlot`. */
export interface AgentSupervisor {
  /** Adds the agent's open sockets to it. Called before `onStart`. */
  readonly restoreSockets: (agent: ActiveAgent) => void;
  /** An event of `bytes` is stored and applied. */
  readonly onCommitted: (agent: ActiveAgent, bytes: number) => void;
  /** An append was not stored. The agent must not run on. */
  readonly onFailed: (
    agent: ActiveAgent,
    outcome: AppendResult["_tag"] | "Defect",
    error: unknown,
  ) => void;
  /** `ctx.abort()` was called. The agent in memory is discarded. */
  readonly onAbort: (reason: string) => void;
  /** `turn` destroyed the agent: its end is stored. */
  readonly onDestroyed: (agent: ActiveAgent, turn: Turn) => void;
}

/** One period in which this host owns the agent's shard, from a claim of its lease to its loss. */
export interface Ownership {
  readonly epoch: Epoch;
  /** Fires when the shard is lost or the host stops. */
  readonly signal: AbortSignal;
  /** As `CommitterHost.isStillOurs`. */
  readonly isStillOurs: () => true | Promise<boolean>;
}

export class AgentPorts
  implements ActiveAgentParts<ActiveAgent>, CommitterHost, MailboxHost, AgentOutlet
{
  readonly image: Rebuilt["image"];
  readonly database: Rebuilt["database"];
  readonly agentClass: AgentClassType;
  readonly env: unknown;
  private readonly ownership: Ownership;
  private readonly supervisor: AgentSupervisor;
  /** Set by `makeCommitter`, which the agent's constructor calls. */
  private agent!: ActiveAgent;
  private madeLog: AgentLog | undefined;
  private madeLimits: WriteLimits | undefined;
  readonly turnSeconds: number;
  readonly meter: Meter;

  constructor(
    private readonly services: HostServices,
    { image, database }: Pick<Rebuilt, "image" | "database">,
    own: {
      readonly agentClass: AgentClassType;
      readonly ownership: Ownership;
      readonly supervisor: AgentSupervisor;
    },
  ) {
    this.image = image;
    this.database = database;
    this.agentClass = own.agentClass;
    this.ownership = own.ownership;
    this.supervisor = own.supervisor;
    // The same module's as the agent's class: the module may be replaced while the agent is in
    // memory.
    this.env = services.module().env;
    this.meter = services.usage.meter(image.id.class);
    const { turnSeconds } = own.agentClass.options ?? {};
    this.turnSeconds = turnSecondsOf(turnSeconds, services.config.turnSeconds);
  }

  // ActiveAgentParts

  get installation(): string {
    return this.services.config.subjects.namespace;
  }
  get time() {
    return this.services.time;
  }
  get ambient() {
    return this.services.ambient;
  }
  get observability() {
    return this.services.observability;
  }
  get recorded() {
    return this.services.module().recorded;
  }
  get outgoing() {
    return this.services.outgoing;
  }
  get metrics() {
    return this.services.metrics;
  }
  get mcp() {
    return this.services.mcp;
  }
  get mail() {
    return this.services.mail ?? NO_MAIL_TRANSPORT;
  }
  get unbegun() {
    return this.services.unbegun;
  }
  get turnLimits() {
    return this.services.turnLimits;
  }
  get outlet(): AgentOutlet {
    return this;
  }
  /** Created at each read, because few agents have jobs. */
  get jobs(): SchedulerPorts {
    const { services } = this;
    const { inbox, timers, cron } = services;
    return {
      inbox,
      timers,
      cron,
      signal: this.ownership.signal,
      deadLetter: (input, letter) =>
        deadLetter(services, this.image.id, { seq: 0, ...letter, input: async () => input }),
    };
  }

  get log(): AgentLog {
    return (this.madeLog ??= new AgentLog(this.services, this.image.id));
  }

  get limits(): WriteLimits {
    const { time, config } = this.services;
    return (this.madeLimits ??= new WriteLimits(
      time,
      this.agentClass.options ?? {},
      config.writeLimits,
    ));
  }

  ceiling(name: CeilingName): number {
    return ceilingOf(name, this.agentClass.options, this.services.config.ceilings);
  }

  makeCommitter(agent: ActiveAgent): Committer {
    this.agent = agent;
    return new Committer(this);
  }

  onTurnEnd(turn: Turn, end: TurnEnd): void {
    reportTurn(this.services, this.image.id, turn, end);
  }

  onAbort(reason: string): void {
    this.supervisor.onAbort(reason);
  }

  onDestroyed(turn: Turn): void {
    this.supervisor.onDestroyed(this.agent, turn);
  }

  // AgentOutlet

  toGateway(gateway: string, message: GatewayMessage, body?: Uint8Array): void {
    sendToGateway(this.services, gateway, message, body);
  }

  publishState(id: AgentId, seq: number, timeMs: number, state: string | undefined): void {
    publishState(this.services, id, seq, timeMs, state);
  }

  // CommitterHost

  get host(): string {
    return this.services.config.hostId;
  }
  get epoch(): Epoch {
    return this.ownership.epoch;
  }

  append(commit: Commit, expectedSeq: Sequence): Promise<AppendResult> {
    const { journal, metrics, queries } = this.services;
    const { id } = this.image;
    const { signal } = this.ownership;
    return journal.append(id, commit.data, { expectedSeq, signal }).then((result) => {
      // Here, because the committer may have been abandoned by now.
      if (result._tag === "Stored") queries?.stored?.(id, result.seq, commit);
      if (result._tag === "Conflict") metrics.ofClass(id.class).refusedAppend();
      return result;
    });
  }

  last(): Promise<StoredEvent | undefined> {
    return this.services.journal.last(this.image.id);
  }

  isStillOurs(): true | Promise<boolean> {
    return this.ownership.isStillOurs();
  }

  storeInput(data: Uint8Array): Promise<Sequence> {
    return storeInput(this.services.inbox, this.image.id, data, this.ownership.signal);
  }

  takeTriggers(turns: ReadonlySet<Turn>) {
    return this.agent.takeTriggers(turns);
  }

  onCommitted(bytes: number): void {
    this.limits.committed(bytes);
    this.meter.commit(bytes);
    this.supervisor.onCommitted(this.agent, bytes);
  }

  onFailed(outcome: AppendResult["_tag"] | "Defect", error: unknown): void {
    this.supervisor.onFailed(this.agent, outcome, error);
  }

  // MailboxHost

  read(seq: InputHandle["seq"]): Promise<Uint8Array | undefined> {
    return this.services.inbox.get(this.image.id, seq);
  }

  answer(subject: string, answer: InputAnswer, body: Uint8Array | string): void {
    sendAnswer(this.services, subject, answer, body);
  }

  async deadLetter({ seq }: InputHandle, letter: GivenUp, own?: Uint8Array): Promise<void> {
    const input = async (): Promise<Uint8Array> =>
      own ?? (await this.read(seq).catch(noneIfLost)) ?? new Uint8Array(0);
    await deadLetter(this.services, this.image.id, { seq, ...letter, input });
  }

  onDuplicate(): void {
    this.services.metrics.ofClass(this.image.id.class).duplicate();
  }

  onEntityConflict(): void {
    this.services.metrics.ofClass(this.image.id.class).entityConflict();
  }
}

/** An input whose body is lost becomes a dead letter without one. */
function noneIfLost(error: unknown): undefined {
  if (!(error instanceof CorruptFrame)) throw error;
}
