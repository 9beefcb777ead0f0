/**
 * Calls of an `RpcTarget` that an agent has lent (`core/rpcTarget`): part of the messages between
 * gateways and hosts (`Call`). Hosts of older releases refuse them.
 */

/** A target in a structured value: the agent that has it, and the key that it is lent by. */
export type TargetReference = readonly [className: string, name: string, key: string];

/** `target`: the key of its reference. */
export type TargetCall =
  /** `args`: one `StructuredText` of them all. Answered as a `structured` call. */
  | {
      readonly kind: "target";
      readonly target: string;
      readonly method: string;
      readonly args: ReadonlyArray<unknown>;
    }
  /** It has no holder any more. Answered `taken`. */
  | { readonly kind: "drop"; readonly target: string };
