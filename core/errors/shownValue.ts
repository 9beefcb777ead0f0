/**
 * Shows a value that was given as an option, for the error that refuses it: text in quotes, objects
 * as JSON, and numbers as they are written, `NaN` and `Infinity` included. Pure.
 */
export const shownValue = (value: unknown): string =>
  typeof value === "number" ? String(value) : (JSON.stringify(value) ?? String(value));
