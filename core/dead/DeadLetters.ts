/**
 * The dead-letter port: inputs that exhausted their attempts, with the error, kept for an operator.
 * At least once: an input may be buried twice when its host died between; `key` tells.
 * `services/nats/NatsDeadLetters`, `services/memory/MemoryDeadLetters`.
 */
import { Context } from "effect";
import type { AgentId } from "../../schemas/Address.ts";

export interface DeadLettersShape {
  /** Stores a `DeadLetter` frame (`schemas/DeadLetter`). Rejects with `BrokerUnavailable`. */
  readonly put: (id: AgentId, data: Uint8Array) => Promise<void>;
  /** Dead letters kept now, over all agents. Rejects with `BrokerUnavailable`. */
  readonly count: () => Promise<number>;
}

export class DeadLetters extends Context.Service<DeadLetters, DeadLettersShape>()(
  "agents/core/dead/DeadLetters",
) {}
