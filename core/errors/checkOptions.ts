/**
 * Checks the options object of a call: a misspelt option would otherwise be none, and what it was
 * to change would stay as it is. Pure.
 */

/**
 * Throws `TypeError` for what is no object, and for an option that is not known. `what` says which
 * call it is.
 */
export function checkOptions(what: string, options: unknown, known: ReadonlySet<string>): void {
  const fault = optionsFault(options, known);
  if (fault !== undefined) throw new TypeError(`${what}: ${fault}`);
}

/** The fault that `checkOptions` throws, without the call's name; undefined when there is none. */
export function optionsFault(options: unknown, known: ReadonlySet<string>): string | undefined {
  const names = (): string => [...known].join(", ");
  if (typeof options !== "object" || options === null)
    return `the options must be an object with ${names()}, not ${kindOf(options)}`;
  const unknown = Object.keys(options).find((option) => !known.has(option));
  return unknown === undefined
    ? undefined
    : `unknown option "${unknown}"; the options are ${names()}`;
}

const kindOf = (value: unknown): string =>
  value === null || value === undefined ? String(value) : `a ${typeof value}`;
