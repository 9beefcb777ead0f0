/**
 * Responses of an agent whose bodies are still being produced when they are answered. The caller
 * pulls: each pull is a separate call (`Call`, kind `pull`) that returns the next piece or waits
 * for it. A slow reader therefore slows the agent's stream down, and each piece passes the output
 * gate.
 *
 * A stream exists while its caller pulls. Meanwhile the agent does not hibernate. When the host
 * hands the agent over, or dies, the caller's body ends with an error.
 */
import { readAhead, type PendingBody } from "../http/readAhead.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { AgentWork } from "../turn/AgentWork.ts";
import type { Turn } from "../turn/Turn.ts";
import { SparseMap } from "../collections/sparse.ts";
import { messageOf } from "../errors/thrown.ts";

/** Maximum bytes of one piece, well below the broker's payload limit. */
const PIECE_BYTES_MAX = 256 * 1024;
/** After this a pull gets an empty piece; the caller, whose deadline is longer, pulls again. */
const PULL_WAIT_MS = 15_000;
/** A caller that does not pull for this long has left without notice. */
const ABANDONED_MS = 60_000;

/** The bytes of one piece, of which the caller may take fewer. */
export const pieceBytes = (taken = PIECE_BYTES_MAX): number => Math.min(taken, PIECE_BYTES_MAX);

interface Open {
  readonly turn: Turn;
  body: PendingBody;
  readonly release: () => void;
  abandoned: () => void;
}

interface Piece {
  readonly bytes: Uint8Array;
  /** `failed`: the agent's stream threw. */
  readonly end?: "whole" | "failed";
}

/** The agent that answers. */
export interface StreamsAgent
  extends Pick<AgentTurns, "time" | "log">, Pick<AgentWork, "keepAlive"> {
  /** Runs `f` as part of the turn that answered. */
  inTurn<A>(turn: Turn, f: () => A): A;
}

export class ResponseStreams {
  private readonly open = new SparseMap<string, Open>();

  constructor(private readonly agent: StreamsAgent) {}

  /** Adds the body of a response. Returns the id by which it is pulled. */
  add(turn: Turn, body: PendingBody): string {
    const id = this.agent.time.id();
    const release = this.agent.keepAlive();
    const stream: Open = { turn, body, release, abandoned: () => undefined };
    this.open.set(id, stream);
    this.watch(id, stream);
    return id;
  }

  /** The next piece of the stream, of at most so many bytes; undefined for an unknown stream. */
  async pull(id: string, bytesMax?: number): Promise<Piece | undefined> {
    const stream = this.open.get(id);
    if (stream === undefined) return undefined;
    stream.abandoned();
    const { turn } = stream;
    try {
      // Runs in the turn that answered, so that the stream's code has that turn's context.
      if (!(await this.agent.inTurn(turn, () => this.isReady(stream)))) {
        this.watch(id, stream);
        return { bytes: new Uint8Array(0) };
      }
      const { bytes, rest } = await this.agent.inTurn(turn, () =>
        readAhead(stream.body, pieceBytes(bytesMax)),
      );
      // Cancelled meanwhile: this is not the body's end.
      if (this.open.get(id) !== stream) return undefined;
      if (rest === undefined) {
        this.forget(id);
        return { bytes, end: "whole" };
      }
      stream.body = rest;
      this.watch(id, stream);
      return { bytes };
    } catch (error) {
      // As in `runTurn`: the text may be a getter of the turn.
      const text = this.agent.inTurn(turn, () => messageOf(error));
      this.agent.log.warn("the body of a response failed", { error: text });
      this.forget(id);
      return { bytes: new Uint8Array(0), end: "failed" };
    }
  }

  /** The caller has stopped reading. */
  cancel(id: string, reason = "the caller has disconnected"): void {
    const stream = this.open.get(id);
    if (stream === undefined) return;
    this.forget(id);
    stream.turn.abort.fire(new DOMException(reason, "AbortError"));
    // The stream's own code is notified. What it throws then is ignored.
    void this.agent
      .inTurn(stream.turn, () => stream.body.reader.cancel(reason))
      .catch(() => undefined);
  }

  /** The agent leaves its host: all bodies end. */
  close(): void {
    for (const id of this.open.keys()) this.cancel(id, "the agent is leaving its host");
  }

  /** Waits for the next bytes, the end or an error; false after `PULL_WAIT_MS`. */
  private isReady(stream: Open): boolean | Promise<boolean> {
    if (stream.body.held !== undefined) return true;
    const { reader, next = reader.read() } = stream.body;
    stream.body = { reader, next };
    return new Promise((resolve) => {
      const cancel = this.agent.time.after(PULL_WAIT_MS, () => resolve(false));
      const settled = (): void => {
        cancel();
        resolve(true);
      };
      next.then(settled, settled);
    });
  }

  private watch(id: string, stream: Open): void {
    stream.abandoned = this.agent.time.after(ABANDONED_MS, () => this.cancel(id));
  }

  private forget(id: string): void {
    const stream = this.open.get(id);
    this.open.delete(id);
    stream?.abandoned();
    stream?.release();
  }
}
