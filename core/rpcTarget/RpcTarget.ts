/**
 * The base class of objects that calls pass by reference: whoever receives one has a stub, whose
 * calls run where the object is. `LentTargets` is what its agent knows of it,
 * `core/namespace/targetStub` what its holder has.
 */
import type { TargetReference } from "../../schemas/bus/TargetCall.ts";

/** On the prototype: instances of the class of any copy of the package are recognised. */
const TARGET_MARK: unique symbol = Symbol.for("agents.RpcTarget") as never;

/** Extend it. Methods of the prototypes can be called; fields and getters can't be read. */
export abstract class RpcTarget {
  /** Throws: it has no value that could be stored, or sent as JSON. */
  toJSON(): never {
    throw new TypeError(
      `${this.constructor.name} is an RpcTarget, which JSON can't represent. A call passes it by reference, as an argument or as the result; calls of Durable Objects also within them`,
    );
  }
}
Object.defineProperty(RpcTarget.prototype, TARGET_MARK, { value: true });

export const isRpcTarget = (value: unknown): value is RpcTarget =>
  typeof value === "object" && value !== null && TARGET_MARK in value;

/** The key under which a stub of a target has its reference. */
export const REFERENCE = Symbol("reference");

/** What a stub of a target refers to; undefined for any other value. */
export const referenceOf = (value: unknown): TargetReference | undefined =>
  typeof value === "object" && value !== null
    ? (value as { readonly [REFERENCE]?: TargetReference })[REFERENCE]
    : undefined;

/** A target, or a stub of one: what a call passes by reference. */
export const isReferred = (value: unknown): boolean =>
  isRpcTarget(value) || referenceOf(value) !== undefined;
