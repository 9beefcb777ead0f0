/**
 * Writes to standard error at once, where the log's stream would not be written: just before a
 * process ends, or while its main thread is held.
 *
 * Never throws. What comes after the line, such as the end of a process that is held, is due also
 * when the log's reader has ended (EPIPE) or is too slow (EAGAIN).
 */
import { writeSync } from "node:fs";

/** The file descriptor of standard error. */
const STDERR = 2;

export function writeStderr(text: string): void {
  try {
    writeSync(STDERR, text);
  } catch {
    // Nobody reads the log.
  }
}
