/**
 * Bounds the bytes of clients' messages whose handlers run, of all agents of a thread. A handler
 * keeps its message until it ends, which takes as long as a turn may, and its client goes on
 * sending: without a bound, the clients of one slow method fill the thread's memory.
 *
 * Past `BYTES_MAX`, a socket with more than `SHARE_BYTES` may send no more, and past twice as many
 * no socket may. So a client with little is not affected by one with much. A message counts until
 * its handler ends, even if its socket was closed: to connect again does not help. A handler can't
 * be cut off to make room, as `PeerBytes` does: the next message is refused.
 */
import { perClock } from "../time/perClock.ts";
import type { Connection } from "./Connection.ts";

/** Decoded, parsed and held by its handler, a message takes about three times as much. */
const BYTES_MAX = 128 * 1024 * 1024;
const SHARE_BYTES = 1024 * 1024;
/** What the turn of the smallest message takes, about. */
const TURN_BYTES = 2 * 1024;

class MessageBytes {
  private readonly of = new Map<Connection, number>();
  private sum = 0;

  /** Counts a message. Returns what ends that; undefined if the socket may send no more. */
  take(connection: Connection, messageBytes: number): (() => void) | undefined {
    const bytes = messageBytes + TURN_BYTES;
    const share = (this.of.get(connection) ?? 0) + bytes;
    const sum = this.sum + bytes;
    if (sum > 2 * BYTES_MAX || (sum > BYTES_MAX && share > SHARE_BYTES)) return undefined;
    this.of.set(connection, share);
    this.sum = sum;
    return () => this.release(connection, bytes);
  }

  private release(connection: Connection, bytes: number): void {
    this.sum -= bytes;
    const left = this.of.get(connection)! - bytes;
    if (left > 0) this.of.set(connection, left);
    else this.of.delete(connection);
  }
}

/** The bound of all agents of a clock. */
export const messageBytesOf = perClock(() => new MessageBytes());
