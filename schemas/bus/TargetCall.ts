/**
 * Calls of an `RpcTarget` that an agent has lent (`core/rpcTarget`): part of the messages between
 * gateways and hosts (`Call`). Hosts of older releases refuse them.
 */
import { agentId, type AgentId } from "../Address.ts";

/** A target in a structured value: the agent or process that has it, and its key there. */
export type TargetReference = readonly [className: string, name: string, key: string];

/** The class in the address of a process; no module can export it. */
const PROCESS_CLASS = "$process";

/** The address of a process whose code, in no agent, has lent targets. */
export const processAddress = (processId: string): AgentId => agentId(PROCESS_CLASS, processId);

export const isProcess = (id: AgentId): boolean => id.class === PROCESS_CLASS;

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
