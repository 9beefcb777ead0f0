/** An error as the journal keeps it, `name: message`, and an error again. Pure. */

export const failureText = (error: unknown): string =>
  error instanceof Error ? `${error.name}: ${error.message}` : String(error);

/** Of the same text: its name and message are those of the error that it was made of. */
export function errorOfFailure(text: string): Error {
  const colon = text.indexOf(": ");
  const isNamed = colon > 0 && /^[\w.]+$/.test(text.slice(0, colon));
  const error = new Error(isNamed ? text.slice(colon + 2) : text);
  if (isNamed) error.name = text.slice(0, colon);
  return error;
}
