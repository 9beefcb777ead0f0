/**
 * Writes a body of unknown length on uWebSockets.js, no faster than the caller takes it.
 *
 * 1. A write that is not taken whole is kept by the library. Once `onWritable` was ever set it is sent only
 *    with the next write, so from then on the last byte of what we have is held back until all
 *    before it is taken: there is always a next write.
 * 2. One `onWritable` for the whole body: the library puts the running one back over a new one.
 * 3. After the first held-up write nothing is corked: corked writes say nothing of being taken.
 */
import type { HttpResponse as UwsResponse } from "uWebSockets.js";

/** After a held-up write: the library copies what the kernel does not take of it. */
const SLICE_BYTES = 16 * 1024;

export class UwsBodyWriter {
  private readonly res: UwsResponse;
  private held = false;
  private everHeld = false;
  private wake: (() => void) | undefined;
  private gone = false;

  constructor(res: UwsResponse) {
    this.res = res;
  }

  /** The caller has gone: `res` is not touched again, and a write that waits ends. */
  abandon(): void {
    this.gone = true;
    this.wake?.();
  }

  /** Resolves when the last of it is given to the kernel but for what rule 1 says, or the caller has gone. */
  async write(data: Uint8Array): Promise<void> {
    for (let at = 0; at < data.length && !this.gone;) {
      if (this.held) {
        await new Promise<void>((resolve) => (this.wake = resolve));
        this.held = false;
        continue;
      }
      const end = this.everHeld
        ? Math.min(at + SLICE_BYTES, butLast(at, data.length))
        : data.length;
      this.give(data.subarray(at, end));
      at = end;
    }
  }

  private give(data: Uint8Array): void {
    const { res } = this;
    if (this.everHeld) {
      this.held = !res.write(data);
      return;
    }
    // An empty chunk would be the end.
    res.cork(() => void (this.held = !res.write(data)));
    if (!this.held) return;
    this.everHeld = true;
    res.onWritable(() => {
      this.wake?.();
      return true;
    });
  }
}

const butLast = (at: number, length: number): number => (length - at > 1 ? length - 1 : length);
