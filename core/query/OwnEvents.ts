/**
 * What the events that a host has stored since the last question change in the rows of the view,
 * for the thread that answers the next one. The view need not ask the broker for these events
 * (`KnownChanges`): reading one costs the broker more than storing it. The host has just written
 * them, so none is decoded either, and those of one agent are one change.
 *
 * 1. An event is added once the broker has acked it, with the sequence of the ack.
 * 2. Events of an agent are joined only where each follows the one before it. Where another host
 *    has written between them, they are several changes.
 * 3. Past `BYTES_MAX` no more are added until they are taken. The view reads the rest from the
 *    broker, in one piece.
 *
 * Fed by the host's appends (`services/host/AgentPorts`).
 */
import { addressKey, type AgentId } from "../../schemas/Address.ts";
import type { Commit } from "../journal/encodeCommit.ts";
import { hidesSchedules } from "./AgentRow.ts";
import { changeOf, extend, lastSeq, type RowChange } from "./RowChange.ts";

/** Two seconds of a busy host. Whoever asks more rarely can wait for the broker. */
export const OWN_BYTES_MAX = 8 * 2 ** 20;
/** Approximate bytes of a change in memory, without its state, error and schedules. */
const CHANGE_BYTES = 300;
/** Approximate bytes of one schedule of a change. */
const SCHEDULE_BYTES = 300;
/** A number in an array. */
const SEQ_BYTES = 8;

/** An event as the host has written it. */
export type WrittenEvent = Omit<Commit, "data">;

/** It can be posted to a thread. */
export interface OwnChange {
  readonly id: AgentId;
  readonly change: RowChange;
}

export class OwnEvents {
  /** The last change of each agent, by `addressKey`. */
  private last = new Map<string, OwnChange>();
  /** Changes that events of others follow (2). */
  private interrupted: OwnChange[] = [];
  private bytes = 0;
  private isFull = false;

  constructor(private readonly bytesMax = OWN_BYTES_MAX) {}

  add(id: AgentId, seq: number, { head, state }: WrittenEvent): void {
    // The rows of its schedules are in its pages alone.
    if (this.isFull || hidesSchedules(head)) return;
    const key = addressKey(id);
    const before = this.last.get(key);
    const own = changeOf(seq, head, state);
    this.isFull = this.bytes + bytesOf(own) > this.bytesMax;
    if (this.isFull) return;
    if (before !== undefined && lastSeq(before.change) === own.after) {
      this.bytes -= bytesOf(before.change);
      extend(before.change, own);
      this.bytes += bytesOf(before.change);
      return;
    }
    if (before !== undefined) this.interrupted.push(before);
    this.last.set(key, { id, change: own });
    this.bytes += bytesOf(own);
  }

  /** Returns what was added since the last call. */
  take(): ReadonlyArray<OwnChange> {
    const taken = [...this.interrupted, ...this.last.values()];
    this.last = new Map();
    this.interrupted = [];
    this.bytes = 0;
    this.isFull = false;
    return taken;
  }
}

/** The approximate memory of a change. */
export const bytesOf = ({ seqs, failed, state, turn, schedules }: RowChange): number =>
  CHANGE_BYTES +
  SEQ_BYTES * (seqs.length + failed.length) +
  (state?.text?.length ?? 0) +
  (turn?.error?.length ?? 0) +
  (schedules === undefined ? 0 : SCHEDULE_BYTES * (schedules.put.size + schedules.del.size));
