/**
 * Writes a body of unknown length on uWebSockets.js, no faster than the caller reads it.
 *
 * 1. The library keeps the rest of a write that the kernel does not take. Once `onWritable` has
 *    been set, it no longer sends that rest by itself: `writable` does, with an empty cork, and the
 *    event comes again while the kernel takes less. It may come when no `write` waits, because the
 *    next piece is still being made.
 * 2. `onWritable` is set once for the whole body: the library restores a running callback over a
 *    new one.
 * 3. After the first write with backpressure nothing is corked by its own response, because such a
 *    write does not report backpressure. It runs inside the cork of another (CorkAnchor.ts).
 */
import type { HttpResponse as UwsResponse } from "uWebSockets.js";

/** Size of writes after backpressure: the library copies what the kernel does not take. */
const SLICE_BYTES = 16 * 1024;
/** Size of writes before: few system calls for a caller that reads, and a small copy for others. */
const FIRST_SLICE_BYTES = 256 * 1024;

export class UwsBodyWriter {
  /** The last write is not taken whole. */
  private blocked = false;
  private everBlocked = false;
  private wake: (() => void) | undefined;
  private abandoned = false;

  /**
   * `waits` is called with the size of data that waits for the caller, and 0 at its end.
   * `uncorked` runs a write that is not corked by `res` (rule 3).
   */
  constructor(
    private readonly res: UwsResponse,
    private readonly waits: (bytes: number) => void,
    private readonly uncorked: (write: () => void) => void,
  ) {}

  /** The caller has gone: `res` is not used again, and a waiting `write` resolves. */
  abandon(): void {
    this.abandoned = true;
    this.wake?.();
  }

  /** Resolves once all of `data` is passed to the library, or the caller has gone. */
  async write(data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length && !this.abandoned;) {
      if (this.blocked) {
        this.waits(data.length);
        if (!this.abandoned) await new Promise<void>((resolve) => (this.wake = resolve));
        continue;
      }
      const end = at + (this.everBlocked ? SLICE_BYTES : FIRST_SLICE_BYTES);
      this.writeNow(data.subarray(at, end));
      at = end;
    }
    this.waits(0);
  }

  private writeNow(data: Uint8Array): void {
    const { res } = this;
    // `data` is never empty: an empty chunk ends a body.
    const write = (): void => void (this.blocked = !res.write(data));
    if (this.everBlocked) return this.uncorked(write);
    res.cork(write);
    if (!this.blocked) return;
    this.everBlocked = true;
    res.onWritable(() => {
      this.writable();
      return true;
    });
  }

  /** The kernel takes more. */
  private writable(): void {
    this.res.cork(() => undefined);
    this.blocked = false;
    this.wake?.();
  }
}
