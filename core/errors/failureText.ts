/** An error as the journal keeps it, `name: message`, and an error again. Pure. */

export const failureText = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : String(error);

/** The error has the name and message of the one that the text was made of. */
export function errorOfFailure(text: string): Error {
  const colon = text.indexOf(": ");
  const isNamed = colon > 0 && /^[\w.]+$/.test(text.slice(0, colon));
  const error = new Error(isNamed ? text.slice(colon + 2) : text);
  if (isNamed) error.name = text.slice(0, colon);
  return error;
}
