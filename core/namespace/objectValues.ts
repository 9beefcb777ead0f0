/**
 * Arguments and results of a Durable Object's methods: what the structured clone algorithm copies,
 * as one text. Instances of other classes, stubs and functions are refused with the place where
 * they stand: they would arrive as something else.
 */
import { decodeStructured, encodeStructured } from "../../schemas/StructuredText.ts";
import { stubTarget } from "./stubTarget.ts";

/** Throws a `DataCloneError`; `what` names the value. */
export const encodeObjectValue = (value: unknown, what: string): string =>
  encodeStructured(value, what, mayCarry);

export const decodeObjectValue = (text: unknown): unknown => decodeStructured(String(text));

function mayCarry(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === Object.prototype || prototype === null) return stubTarget(value) === undefined;
  // An RpcTarget says what to do instead.
  const { toJSON } = value as { readonly toJSON?: unknown };
  if (typeof toJSON === "function") toJSON.call(value);
  return false;
}
