/**
 * What goes on after the turn that began it, of an agent in memory: bodies of responses that are
 * being made, durable streams, and the sockets that read those. Each is made when something first
 * asks for it: most agents have none. What streams hold back is taken by any commit, and stored at
 * once when the turn that wrote it ends or calls the outside.
 *
 * Part of `ActiveAgent`.
 */
import { StreamReaders, type ReadersAgent } from "../stream/StreamReaders.ts";
import { Streams, type StreamsAgent } from "../stream/Streams.ts";
import { ResponseStreams, type StreamsAgent as BodiesAgent } from "./ResponseStreams.ts";
import type { Turn } from "../turn/Turn.ts";

/** The agent whose they are. */
export type KeepingAgent = StreamsAgent & ReadersAgent & BodiesAgent;

export class Keeping {
  readonly #agent: KeepingAgent;
  #bodies: ResponseStreams | undefined;
  #streams: Streams | undefined;
  #readers: StreamReaders | undefined;

  constructor(agent: KeepingAgent) {
    this.#agent = agent;
  }

  get bodies(): ResponseStreams {
    return (this.#bodies ??= new ResponseStreams(this.#agent));
  }
  get streams(): Streams {
    return (this.#streams ??= new Streams(this.#agent));
  }
  get readers(): StreamReaders {
    return (this.#readers ??= new StreamReaders(this.#agent, this.streams));
  }

  /** The agent leaves its host. */
  close(): void {
    this.#bodies?.close();
  }

  /** Something is written that no commit has taken. */
  get unstored(): boolean {
    return this.#streams?.unstored === true;
  }

  /** Puts what is written into the tables, for the commit that is being made. */
  store(inTransaction: boolean): void {
    if (inTransaction) this.#streams?.storeLater();
    else this.#streams?.store();
  }

  /** A turn that is no durable one has ended: what it wrote is committed. */
  ended(turn: Turn): void {
    this.#streams?.storeFor(turn);
    this.#agent.committer.end(turn);
  }

  /** As `Committer.flush`. */
  flush(turn: Turn): Promise<void> {
    const { committer } = this.#agent;
    if (this.unstored) committer.touch(turn);
    return committer.flush(turn);
  }
}
