/**
 * The events that a host has stored since the last question over all agents, for the thread that
 * answers the next one. The view need not ask the broker for them (`KnownChanges`): reading an
 * event costs the broker more than storing it.
 *
 * 1. An event is added once the broker has acked it, with the sequence of the ack.
 * 2. Past `BYTES_MAX` no more are added until they are taken. The view reads the rest from the
 *    broker, in one piece.
 *
 * Fed by the host's appends (`services/wiring/joinQueries`).
 */
import { addressKey, type AgentId } from "../../schemas/Address.ts";

/** Two seconds of a busy host. Whoever asks more rarely can wait for the broker. */
export const OWN_BYTES_MAX = 8 * 2 ** 20;
/** Less than some fifty usual events is not worth growing for. */
const BYTES_MIN = 64 * 1024;

/** What `take` returns: it can be posted to a thread, with `bytes.buffer` transferred. */
export interface TakenEvents {
  /** `addressKey`s. */
  readonly agents: ReadonlyArray<string>;
  readonly seqs: ReadonlyArray<number>;
  /** When each ack came, milliseconds since the epoch. */
  readonly storedMs: ReadonlyArray<number>;
  /** Where each event ends in `bytes`. It begins where the one before it ends. */
  readonly ends: ReadonlyArray<number>;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export class OwnEvents {
  private readonly bytesMax: number;
  private bytes = new Uint8Array(BYTES_MIN);
  private agents: string[] = [];
  private seqs: number[] = [];
  private storedMs: number[] = [];
  private ends: number[] = [];
  private isFull = false;

  constructor(bytesMax = OWN_BYTES_MAX) {
    this.bytesMax = bytesMax;
  }

  /** Copies `data`. */
  add(
    id: AgentId,
    event: { readonly seq: number; readonly storedMs: number },
    data: Uint8Array,
  ): void {
    const start = this.ends.at(-1) ?? 0;
    const end = start + data.length;
    this.isFull ||= end > this.bytesMax;
    if (this.isFull) return;
    if (end > this.bytes.length) this.grow(end);
    this.bytes.set(data, start);
    this.agents.push(addressKey(id));
    this.seqs.push(event.seq);
    this.storedMs.push(event.storedMs);
    this.ends.push(end);
  }

  /** Returns what was added since the last call, in that order. */
  take(): TakenEvents {
    const { agents, seqs, storedMs, ends, bytes } = this;
    this.agents = [];
    this.seqs = [];
    this.storedMs = [];
    this.ends = [];
    // The next question will probably find as much.
    this.bytes = new Uint8Array(Math.max(BYTES_MIN, ends.at(-1) ?? 0));
    this.isFull = false;
    return { agents, seqs, storedMs, ends, bytes };
  }

  private grow(bytesWanted: number): void {
    const grown = new Uint8Array(Math.max(bytesWanted, this.bytes.length * 2));
    grown.set(this.bytes);
    this.bytes = grown;
  }
}
