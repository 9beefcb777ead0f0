/** Why an agent can't be asked on this host now (`AgentSlot`), and which of those are worth another try (`Shard`). */
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";

/** No class of that name is in this host's module. */
export class UnknownAgentClass extends Error {
  override readonly name = "UnknownAgentClass";
  constructor(className: string) {
    super(`No agent class "${className}" is exported by this host's module`);
  }
}

/** Is it worth asking another host, or this one again? */
export const isTransient = (error: unknown): boolean =>
  error instanceof AgentDiscarded || error instanceof BrokerUnavailable;
