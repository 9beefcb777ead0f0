/**
 * The text of an error of a stranger's server for clients: without control characters, and bounded
 * (`protocol.md` §2.1). Pure.
 */
import { messageOf } from "../errors/thrown.ts";

/** UTF-16 units; three dots follow what was cut. */
const ERROR_CHARS_MAX = 500;

export function errorText(error: unknown): string {
  const message = messageOf(error);
  const plain = message.replace(/\p{Cc}+/gu, " ").trim();
  return plain.length > ERROR_CHARS_MAX ? `${plain.slice(0, ERROR_CHARS_MAX)}...` : plain;
}
