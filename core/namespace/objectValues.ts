/**
 * Encodes arguments and results of a Durable Object's methods as one text: what the structured
 * clone algorithm copies, `Headers`, and `RpcTarget`s by reference. Instances of other classes,
 * stubs and functions are refused with their path, since they would arrive as something else.
 */
import type { TargetReference } from "../../schemas/bus/TargetCall.ts";
import { decodeStructured, encodeStructured } from "../../schemas/StructuredText.ts";
import { isRpcTarget, referenceOf, type RpcTarget } from "../rpcTarget/RpcTarget.ts";
import { stubTarget } from "./stubTarget.ts";

/** Stands where a reference has its class; no class has this name. */
const HEADERS = "Headers:";

/** Throws a `DataCloneError`, or what `lend` throws. `what` names the value in errors. */
export const encodeObjectValue = (
  value: unknown,
  what: string,
  lend: (target: RpcTarget) => TargetReference,
): string =>
  encodeStructured(value, what, mayCarry, (object) => {
    if (object instanceof Headers) return [HEADERS, JSON.stringify([...object])];
    return isRpcTarget(object) ? lend(object) : referenceOf(object);
  });

/** `borrow` creates the stub for a reference. */
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
