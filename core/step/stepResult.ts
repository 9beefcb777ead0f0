/**
 * A result as it is kept: JSON text; and errors after which a step is not tried again. For steps of
 * turns, steps of workflows and durable calls alike. Pure.
 */
import { assertWireValue } from "../call/wireValue.ts";
import { messageOf, nameOf } from "../errors/thrown.ts";

/** UTF-16 units of JSON. As of a state: a result is kept in memory until its turn ends. */
const RESULT_CHARS_MAX = 16 * 1024 * 1024;

/** The value can't be stored. Another attempt would not help. */
class NotStorable extends TypeError {
  override readonly name = "TypeError";
}

/**
 * Undefined for `undefined`. Throws `NotStorable` for what JSON can't carry, and as `tooLarge` for
 * more than `RESULT_CHARS_MAX`. `what`: the result of which step or call.
 */
export function resultText(
  what: string,
  value: unknown,
  tooLarge = (size: string): Error => new NotStorable(`${what} is ${size}`),
): string | undefined {
  if (value === undefined) return undefined;
  try {
    assertWireValue(value, what);
  } catch (error) {
    const why = messageOf(error);
    // A getter or `toJSON` of the value threw.
    throw new NotStorable(why.startsWith(what) ? why : `${what} can't be read: ${why}`);
  }
  const text = JSON.stringify(value) as string | undefined;
  if (text !== undefined) checkSize(text, what, tooLarge);
  return text;
}

/** Throws for more than `RESULT_CHARS_MAX`: what `tooLarge` makes of the size, or a RangeError. */
export function checkSize(
  text: string,
  what: string,
  tooLarge = (size: string): Error => new RangeError(`${what} is ${size}`),
): void {
  if (text.length > RESULT_CHARS_MAX)
    throw tooLarge(
      `${text.length} characters of JSON, but at most ${RESULT_CHARS_MAX} are allowed: use a reference to the data, and not the data`,
    );
}

/** Whether another attempt of a step is pointless, by its nature or because its author says so. */
export const isFinalForAll = (error: unknown): boolean =>
  error instanceof NotStorable || (error instanceof Error && isNonRetryable(error));

/**
 * By its name, which an error of another agent has kept, or by one along its prototypes, since a
 * user's module may have a class of that name of its own.
 */
function isNonRetryable(error: Error): boolean {
  if (nameOf(error) === "NonRetryableError") return true;
  for (let at: object | null = error; at !== null; at = Object.getPrototypeOf(at) as object | null)
    if ((at.constructor as { readonly name?: string } | undefined)?.name === "NonRetryableError")
      return true;
  return false;
}
