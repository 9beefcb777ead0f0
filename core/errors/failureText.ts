/** A thrown value as the journal keeps it, `name: message`, and an error again. Pure. */
import { causesOf, codeOf, messageOf, nameOf } from "./thrown.ts";

export const failureText = (thrown: unknown): string =>
  thrown instanceof Error ? `${nameOf(thrown)}: ${messageOf(thrown)}` : messageOf(thrown);

/**
 * As `failureText`, followed by the messages of its causes, for the people who look for a reason:
 * Node's `fetch` says "fetch failed", and only its cause says which address refused.
 */
export function reasonText(thrown: unknown): string {
  let text = failureText(thrown);
  for (const cause of causesOf(thrown)) {
    const why = messageOf(cause) || codeOf(cause);
    if (why !== "" && !text.includes(why)) text += `: ${why}`;
  }
  return messageOf(text); // which bounds it
}

/** The error has the name and message of the one that the text was made of. */
export function errorOfFailure(text: string): Error {
  const colon = text.indexOf(": ");
  const isNamed = colon > 0 && /^[\w.]+$/.test(text.slice(0, colon));
  const error = new Error(isNamed ? text.slice(colon + 2) : text);
  if (isNamed) error.name = text.slice(0, colon);
  return error;
}
