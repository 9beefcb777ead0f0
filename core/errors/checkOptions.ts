/**
 * Checks the options object of a call: a misspelt option would otherwise be none, and what it was
 * to change would stay as it is. Pure.
 */
import { nearest } from "./nearest.ts";

/** Throws `TypeError` for no object, and for an unknown option. `what`: the call. */
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

/**
 * Throws `TypeError` for what is no object, and for an option that is nearly a known one. Any other
 * may be of a later release of the reference.
 */
export function refuseMisspelt(what: string, options: unknown, known: ReadonlySet<string>): void {
  if (typeof options !== "object" || options === null) return checkOptions(what, options, known);
  for (const option of Object.keys(options)) {
    const meant = known.has(option) ? undefined : nearest(option, known);
    if (meant !== undefined)
      throw new TypeError(`${what}: unknown option "${option}". Did you mean "${meant}"?`);
  }
}

const kindOf = (value: unknown): string =>
  value === null || value === undefined ? String(value) : `a ${typeof value}`;
