/**
 * Thrown values as text, for logs, messages and records. Code can throw anything: an object without
 * a prototype, an error whose message is a getter that throws. What handles such a value must not
 * fail over it, so no function of this file throws.
 */

/** For a value that has no text. */
const UNREADABLE = "a value that can't be read as text";

function read(part: () => unknown): string {
  try {
    return String(part());
  } catch {
    return UNREADABLE;
  }
}

/** The message of an error; of another value its text. */
export const messageOf = (thrown: unknown): string =>
  read(() => (thrown instanceof Error ? thrown.message : thrown));

/** For a log: the stack of an error; of what has none the message. */
export const stackOf = (thrown: unknown): string =>
  read(() => (thrown instanceof Error ? (thrown.stack ?? thrown.message) : thrown));

/** The name of an error. */
export const nameOf = (thrown: Error): string => read(() => thrown.name);
