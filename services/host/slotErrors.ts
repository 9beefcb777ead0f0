/**
 * The error of an unknown class and the log line of a failed append (`AgentSlot`), and which errors
 * of a slot are worth a retry (`Shard`).
 */
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type { AgentId } from "../../schemas/Address.ts";
import type { HostServices } from "./HostServices.ts";

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

/** An append was refused, or its outcome is unknown. */
export const reportUnstored = (
  { log }: Pick<HostServices, "log">,
  id: AgentId,
  { outcome, error }: { readonly outcome: string; readonly error: unknown },
): void =>
  log.warn("an append was not stored; the agent leaves memory", {
    ...id,
    outcome,
    error: error instanceof Error ? error.stack : error,
  });
