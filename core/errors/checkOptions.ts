/**
 * Checks the options object of a method of `Agent`: a misspelt option would otherwise be none, and
 * what it was to change would stay as it is. Pure.
 */

/**
 * Throws `TypeError` for what is no object, and for an option that is not known. `what` says which
 * call it is.
 */
export function checkOptions(what: string, options: unknown, known: ReadonlySet<string>): void {
  const names = [...known].join(", ");
  if (typeof options !== "object" || options === null)
    throw new TypeError(
      `${what}: the options must be an object with ${names}, not ${kindOf(options)}`,
    );
  for (const option of Object.keys(options))
    if (!known.has(option))
      throw new TypeError(`${what}: unknown option "${option}"; the options are ${names}`);
}

const kindOf = (value: unknown): string =>
  value === null || value === undefined ? String(value) : `a ${typeof value}`;
