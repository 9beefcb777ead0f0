/**
 * The error of an unknown class (`AgentSlot`), and which errors of a slot are worth a retry
 * (`Shard`).
 */
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";

/** This host's module has no class of that name. */
export class UnknownAgentClass extends Error {
  override readonly name = "UnknownAgentClass";
  constructor(className: string) {
    super(`No agent class "${className}" is exported by this host's module`);
  }
}

/** Whether a retry, on this host or on another, may succeed. */
export const isTransient = (error: unknown): boolean =>
  error instanceof AgentDiscarded || error instanceof BrokerUnavailable;
