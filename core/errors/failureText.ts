/** A thrown value as the journal keeps it, `name: message`, and an error again. Pure. */
import { messageOf, nameOf } from "./thrown.ts";

export const failureText = (thrown: unknown): string =>
  thrown instanceof Error ? `${nameOf(thrown)}: ${messageOf(thrown)}` : messageOf(thrown);

/** The error has the name and message of the one that the text was made of. */
export function errorOfFailure(text: string): Error {
  const colon = text.indexOf(": ");
  const isNamed = colon > 0 && /^[\w.]+$/.test(text.slice(0, colon));
  const error = new Error(isNamed ? text.slice(colon + 2) : text);
  if (isNamed) error.name = text.slice(0, colon);
  return error;
}
