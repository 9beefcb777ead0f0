/**
 * Bounds the bytes of streamed answers that are on their way to this process at once. Callers that
 * all read large bodies would otherwise fill the one connection to the broker: other answers would
 * wait behind theirs, and past `max_pending` the broker cuts the process off.
 *
 * The callers share `BYTES`: each call says how long a piece of the body it takes (`Call`,
 * `piece`). Requests and pulls are counted apart. A pull of a quiet stream waits for seconds and
 * brings little, so it is not counted: thousands of them do not slow a download. Bodies that are
 * whole and the results of RPC calls have no pieces, and no bound. Nothing is refused, counted in
 * bytes or cut off, as by `PeerBytes` and `MessageBytes`: more callers get shorter pieces.
 */
import type { Call } from "../../schemas/bus/Call.ts";

/** A quarter of what a NATS server keeps for a connection by default; some tenths of a second. */
const BYTES = 16 * 1024 * 1024;
/** Smaller pieces make more messages, each of which costs as much as some KiB of body. */
const PIECE_BYTES_MIN = 16 * 1024;
/** A stream is quiet while its pieces are shorter. All may get loud at once, for one piece each. */
const QUIET_BYTES = PIECE_BYTES_MIN;
/** More than a host puts in one piece: a call need not say it. */
const PIECE_BYTES_FREE = 256 * 1024;

/** Whether a stream is quiet whose last piece had so many bytes. */
export const isQuiet = (pieceBytes: number): boolean => pieceBytes < QUIET_BYTES;

export class AnswerBudget {
  private readonly underWay = { fetch: 0, pull: 0 };

  /** Runs `f` with the call, which counts until the promise settles. `quiet`: as `isQuiet`. */
  share<A>(call: Call, quiet: boolean, f: (call: Call) => Promise<A>): Promise<A> {
    if (call.kind === "fetch") return this.shareAs("fetch", call, f);
    if (call.kind !== "pull" || call.cancel === true) return f(call);
    return quiet ? f({ ...call, piece: PIECE_BYTES_MIN }) : this.shareAs("pull", call, f);
  }

  private async shareAs<A>(
    kind: keyof AnswerBudget["underWay"],
    call: Call,
    f: (call: Call) => Promise<A>,
  ): Promise<A> {
    const piece = Math.floor(BYTES / ++this.underWay[kind]);
    try {
      if (piece >= PIECE_BYTES_FREE) return await f(call);
      return await f({ ...call, piece: Math.max(piece, PIECE_BYTES_MIN) });
    } finally {
      this.underWay[kind]--;
    }
  }
}
