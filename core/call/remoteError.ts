/**
 * Errors between agents: name, message, cause and short own properties, such as `code`, are passed
 * on, and so is a thrown value that is not an error. `JournalRateExceeded` keeps its class and
 * fields. The stack is not passed on, because it would reveal the other side's code and name files
 * that do not exist here.
 */
import type { CallReply, RemoteCause, RemoteError } from "../../schemas/bus/CallReply.ts";
import { assertWireValue } from "./wireValue.ts";
import { JournalRateExceeded } from "../errors/errors.ts";
import { messageOf, nameOf } from "../errors/thrown.ts";

/** Own properties that are passed on: what code compares, and no requests or documents. */
const FIELDS_MAX = 16;
const FIELD_LENGTH_MAX = 1_024;
const NOT_FIELDS = new Set(["name", "message", "stack", "cause"]);

/** Causes of causes that are passed on: real chains are shorter, and a cycle ends here. */
const CAUSES_MAX = 8;

export function encodeError(thrown: unknown, causesLeft = CAUSES_MAX): RemoteError {
  if (!(thrown instanceof Error)) {
    const text = typeof thrown === "string" ? thrown : describe(thrown);
    return { name: "Error", message: text, ...causeOf(thrown, causesLeft) };
  }
  return {
    name: nameOf(thrown),
    message: messageOf(thrown),
    ...(thrown.cause === undefined ? {} : causeOf(thrown.cause, causesLeft)),
    ...fieldsOf(thrown),
    ...(thrown instanceof JournalRateExceeded ? { journalRate: rateOf(thrown) } : {}),
  };
}

/** The answer to a caller that may see what failed. */
export const errorReply = (thrown: unknown): CallReply => ({
  kind: "error",
  ...encodeError(thrown),
});

/** The answer to a caller that may not see what failed: the host's log has it. */
export const HIDDEN_ERROR: CallReply = {
  kind: "error",
  name: "Error",
  message: "Internal Server Error",
};

/** Replaces a reply that is too large for the broker. */
export const resultTooLarge = (bytes: number, bytesMax: number): CallReply => ({
  kind: "error",
  name: "RangeError",
  message: `The result is ${bytes} bytes; the broker's limit is ${bytesMax}`,
});

function causeOf(cause: unknown, left: number): { readonly cause?: RemoteCause } {
  if (left === 0) return {};
  if (cause instanceof Error) return { cause: { error: encodeError(cause, left - 1) } };
  return { cause: { value: isJson(cause) ? cause : describe(cause) } };
}

type Fields = NonNullable<RemoteError["fields"]>;

/** Without those of the runtime's own errors, which begin with `_`. */
function fieldsOf(error: Error): Pick<RemoteError, "fields"> {
  const fields = Object.entries(Object.getOwnPropertyDescriptors(error))
    .filter(([key, { enumerable }]) => enumerable && !NOT_FIELDS.has(key) && !key.startsWith("_"))
    .map(([key, { value }]) => [key, value as unknown] as const)
    .filter(([, value]) => isField(value))
    .slice(0, FIELDS_MAX);
  return fields.length === 0 ? {} : { fields: Object.fromEntries(fields) as Fields };
}

const isField = (value: unknown): boolean =>
  typeof value === "boolean" ||
  (typeof value === "number" && Number.isFinite(value)) ||
  (typeof value === "string" && value.length <= FIELD_LENGTH_MAX);

/** Errors whose class the other side has too: `instanceof` holds across the call. */
const BUILT_IN = { EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

export function decodeError({ name, message, cause, fields, journalRate }: RemoteError): Error {
  if (journalRate !== undefined) return new JournalRateExceeded(journalRate);
  const given =
    cause === undefined ? {} : { cause: "error" in cause ? decodeError(cause.error) : cause.value };
  const type = Object.hasOwn(BUILT_IN, name) ? BUILT_IN[name as keyof typeof BUILT_IN] : Error;
  const error = Object.assign(new type(message, given), fields);
  if (error.name !== name) error.name = name;
  return error;
}

const rateOf = ({ bytesMax, retryAfterMs }: JournalRateExceeded) => ({ bytesMax, retryAfterMs });

function isJson(value: unknown): boolean {
  try {
    assertWireValue(value, "the cause");
    return value !== undefined;
  } catch {
    return false;
  }
}

const describe = (value: unknown): string =>
  typeof value === "object" && value !== null && isJson(value)
    ? JSON.stringify(value)
    : messageOf(value);
