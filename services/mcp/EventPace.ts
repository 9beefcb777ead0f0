/**
 * How fast the event streams of one MCP server are read. Each message costs the host a parse and a
 * check, and each request in one (a ping) a request back. A server that sends without end would
 * otherwise take the thread and the memory of its process. `guardedFetch` passes a stream on in
 * pieces and pauses it for as long as the pace says: the server waits, and nothing is lost.
 */
import { isOpening } from "../../core/http/openingsIn.ts";

/** More than servers report: progress, logs and words of a model come tens of times a second. */
const EVENTS_PER_SECOND = 200;
/** As pings, these take the thread for some 0.2 s. */
const EVENTS_BURST = 200;
/** Between two pieces, the pace is asked: within the burst, and more than a packet usually has. */
const PIECE_EVENTS = 50;

const LF = 10;
const CR = 13;

/** All streams of a connection share one: an answer to a request can be a stream as well. */
export class EventPace {
  private fullAtMs = 0;

  /** `nowMs`: a clock that never goes back. */
  constructor(private readonly nowMs: () => number = () => performance.now()) {}

  /** Returns the milliseconds to wait, after these events, before more are read. */
  take(events: number): number {
    const nowMs = this.nowMs();
    const intervalMs = 1_000 / EVENTS_PER_SECOND;
    this.fullAtMs = Math.max(this.fullAtMs, nowMs) + events * intervalMs;
    return Math.max(0, this.fullAtMs - nowMs - EVENTS_BURST * intervalMs);
  }
}

interface EventPiece {
  readonly bytes: Uint8Array;
  /** The number of events that end in it: at most `PIECE_EVENTS`. */
  readonly events: number;
}

/** Cuts one stream into pieces by the empty lines that end its events, however it arrives. */
export class EventSplitter {
  private isLineEmpty = true;
  private isAfterCr = false;
  private bytesSinceEnd = 0;
  private openingsSinceEnd = 0;

  /** The bytes so far of the event that has not ended. */
  get openBytes(): number {
    return this.bytesSinceEnd;
  }

  /** Its lists and objects so far, as `openingsIn` counts them. */
  get openOpenings(): number {
    return this.openingsSinceEnd;
  }

  /** All of `bytes`, in order. */
  pieces(bytes: Uint8Array): EventPiece[] {
    const pieces: EventPiece[] = [];
    let start = 0;
    let events = 0;
    for (let at = 0; at < bytes.length; at += 1) {
      this.bytesSinceEnd += 1;
      if (isOpening(bytes[at])) this.openingsSinceEnd += 1;
      if (!this.endsEvent(bytes[at]!)) continue;
      this.bytesSinceEnd = 0;
      this.openingsSinceEnd = 0;
      events += 1;
      if (events < PIECE_EVENTS) continue;
      pieces.push({ bytes: bytes.subarray(start, at + 1), events });
      start = at + 1;
      events = 0;
    }
    if (start < bytes.length) pieces.push({ bytes: bytes.subarray(start), events });
    return pieces;
  }

  private endsEvent(byte: number): boolean {
    const isSecondOfCrLf = byte === LF && this.isAfterCr;
    this.isAfterCr = byte === CR;
    if (isSecondOfCrLf) return false;
    const endsLine = byte === LF || byte === CR;
    const endsEvent = endsLine && this.isLineEmpty;
    this.isLineEmpty = endsLine;
    return endsEvent;
  }
}
