/**
 * Arguments and results of a Durable Object's methods: what the structured clone algorithm copies,
 * `Headers`, and `RpcTarget`s by reference, as one text. Instances of other classes, stubs and
 * functions are refused with the place where they stand: they would arrive as something else.
 */
import type { TargetReference } from "../../schemas/TargetCall.ts";
import { decodeStructured, encodeStructured } from "../../schemas/StructuredText.ts";
import { isRpcTarget, referenceOf, type RpcTarget } from "../rpcTarget/RpcTarget.ts";
import { stubTarget } from "./stubTarget.ts";

/** In the place of a reference's class: no class is named so. */
const HEADERS = "Headers:";

/** Throws a `DataCloneError`, or what `lend` throws; `what` names the value. */
export const encodeObjectValue = (
  value: unknown,
  what: string,
  lend: (target: RpcTarget) => TargetReference,
): string =>
  encodeStructured(value, what, mayCarry, (object) => {
    if (object instanceof Headers) return [HEADERS, JSON.stringify([...object])];
    return isRpcTarget(object) ? lend(object) : referenceOf(object);
  });

/** `borrow` makes the stub of a reference. */
export const decodeObjectValue = (
  text: unknown,
  borrow: (reference: TargetReference) => object,
): unknown =>
  decodeStructured(String(text), (reference) => {
    const [kind, pairs] = reference;
    return kind === HEADERS
      ? new Headers(JSON.parse(pairs!) as [string, string][])
      : borrow(reference as unknown as TargetReference);
  });

function mayCarry(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === Object.prototype || prototype === null;
  return isPlain && stubTarget(value) === undefined;
}
