/**
 * The error of an unknown class (`AgentSlot`), which errors of a slot are worth a retry (`Shard`),
 * and what a log says of both.
 */
import { nearest } from "../../core/errors/nearest.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { messageOf, stackOf } from "../../core/errors/thrown.ts";

/** This host's module has no class of that name. */
export class UnknownAgentClass extends Error {
  override readonly name = "UnknownAgentClass";
  /** `exported`: the names of the module's classes. */
  constructor(className: string, exported: Iterable<string>) {
    const meant = nearest(className, exported);
    const hint = meant === undefined ? "" : `. Did you mean "${meant}"?`;
    super(
      `No agent class "${className}" is exported by this host's module: export it, or erase its agents${hint}`,
    );
  }
}

/** Whether a retry, on this host or on another, may succeed. */
export const isTransient = (error: unknown): boolean =>
  error instanceof AgentDiscarded || error instanceof BrokerUnavailable;

/**
 * For a log. The stack shows where a defect is, and nothing of a broker that does not answer or of
 * a class that a module lacks.
 */
export const reasonOf = (error: unknown): string =>
  isTransient(error) || error instanceof UnknownAgentClass ? messageOf(error) : stackOf(error);
