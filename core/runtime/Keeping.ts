/**
 * The parts of an agent that outlive the turn that began them: bodies of streamed responses,
 * durable streams and their readers, kept broadcasts, budgets, and objects that others call by
 * reference. Each is created on first use, since most agents have none. Each commit takes what
 * streams have buffered. A turn that wrote to a stream commits at once when it ends or calls
 * another system.
 *
 * Part of `ActiveAgent`.
 */
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { Connection } from "../connection/Connection.ts";
import { SparseSet } from "../collections/sparse.ts";
import { Budgets, type BudgetAgent } from "../budget/Budgets.ts";
import { ExpiryAlarm, type ExpiryAgent } from "../stream/ExpiryAlarm.ts";
import { KeptMessages, sinceOf, type KeptAgent } from "../stream/KeptMessages.ts";
import { StreamReaders, type ReadersAgent } from "../stream/StreamReaders.ts";
import { Streams, type StreamsAgent } from "../stream/Streams.ts";
import { ResponseStreams, type StreamsAgent as BodiesAgent } from "./ResponseStreams.ts";
import { LentTargets, type LendingAgent } from "../rpcTarget/LentTargets.ts";
import type { Turn } from "../turn/Turn.ts";

/** The agent that these parts belong to. */
type KeepingAgent = StreamsAgent &
  ReadersAgent &
  BodiesAgent &
  KeptAgent &
  ExpiryAgent &
  LendingAgent &
  BudgetAgent & {
    readonly sockets: { tellState(): void; meet(info: SocketInfo): Connection | undefined };
  };

export class Keeping {
  readonly #agent: KeepingAgent;
  #bodies: ResponseStreams | undefined;
  #streams: Streams | undefined;
  #readers: StreamReaders | undefined;
  #kept: KeptMessages | undefined;
  #budgets: Budgets | undefined;
  /** Whether it has looked for the tables of budgets. */
  #hasLooked = false;
  #lent: LentTargets | undefined;
  /** Turns whose inputs are done or dead. Their reservations end with the next commit of rows. */
  #done: Turn[] | undefined;
  #atLeave: SparseSet<() => void> | undefined;

  constructor(agent: KeepingAgent) {
    this.#agent = agent;
  }

  /** Called when the agent leaves its host. */
  get atLeave(): SparseSet<() => void> {
    return (this.#atLeave ??= new SparseSet());
  }

  get #alarm(): ExpiryAlarm {
    return new ExpiryAlarm(this.#agent);
  }

  get bodies(): ResponseStreams {
    return (this.#bodies ??= new ResponseStreams(this.#agent));
  }
  get streams(): Streams {
    return (this.#streams ??= new Streams(this.#agent, this.#alarm));
  }
  get readers(): StreamReaders {
    return (this.#readers ??= new StreamReaders(this.#agent, this.streams));
  }

  get kept(): KeptMessages {
    return (this.#kept ??= new KeptMessages(this.#agent, this.#alarm));
  }

  get budgets(): Budgets {
    return (this.#budgets ??= new Budgets(this.#agent, false));
  }

  get lent(): LentTargets {
    return (this.#lent ??= new LentTargets(this.#agent));
  }

  /** Sends what can be sent again, because frames to the agent's sockets may have been lost. */
  tellAgain(): void {
    const { sockets } = this.#agent;
    sockets.tellState();
    for (const connection of sockets.values()) this.#tellPlace(connection);
  }

  /** As `tellAgain`, for one socket, which may be new here. */
  meet(info: SocketInfo): void {
    const connection = this.#agent.sockets.meet(info);
    if (connection !== undefined) this.#tellPlace(connection);
  }

  #tellPlace(connection: Connection): void {
    if (sinceOf(connection.uri) !== undefined) this.kept.tellPlace(connection);
  }

  /** Called when the alarm fires. */
  expire(): void {
    const next = [this.streams.expire(), this.kept.expire()].filter((at) => at !== undefined);
    this.#alarm.next(next.length === 0 ? undefined : Math.min(...next));
  }

  /** The agent leaves its host. */
  close(): void {
    this.#bodies?.close();
    this.#lent?.close();
    for (const leave of this.#atLeave ?? []) leave();
  }

  /** Whether something is written and not yet committed. */
  get unstored(): boolean {
    return this.#streams?.unstored === true;
  }

  /** Writes what was gathered to the tables, for the commit of `turns`. */
  store(turns: ReadonlySet<Turn>, inTransaction: boolean): void {
    for (const turn of turns) if (isDone(turn)) (this.#done ??= []).push(turn);
    if (inTransaction) return this.#streams?.storeLater();
    this.#streams?.store();
    if (this.#done === undefined) return;
    this.#findBudgets();
    this.#budgets?.store(this.#done);
    this.#done = undefined;
  }

  /** An earlier process may have left reservations, which end with the first commit here. */
  #findBudgets(): void {
    if (this.#hasLooked) return;
    this.#hasLooked = true;
    if (Budgets.mayBeIn(this.#agent.database)) this.#budgets ??= new Budgets(this.#agent, true);
  }

  /** A turn without a durable input has ended: what it wrote is committed. */
  ended(turn: Turn): void {
    this.#streams?.storeFor(turn);
    this.#budgets?.ended(turn);
    this.#agent.committer.end(turn);
  }

  /** As `Committer.flush`. */
  flush(turn: Turn): Promise<void> {
    const { committer } = this.#agent;
    if (this.unstored) committer.touch(turn);
    return committer.flush(turn);
  }
}

/** Whether its input is done, or dead, with this commit. */
const isDone = ({ durable, ended, outcome }: Turn): boolean =>
  durable && ended && outcome !== undefined && outcome.done.length > 0;
