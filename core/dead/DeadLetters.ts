/**
 * The dead-letter port: inputs that exhausted their attempts, with the error, kept for an operator.
 *
 * 1. A letter with a `death` is stored once within two minutes: by then, a host that died between
 *    the letter and the event is replaced. Later it may be stored again; its key shows that.
 * 2. A letter's `seq` is its own for ever: no later one gets it, not after a removal either.
 * 3. Only `remove` removes a letter.
 *
 * Adapters: `services/nats/NatsDeadLetters`, `services/memory/MemoryDeadLetters`; one conformance
 * suite.
 */
import * as Context from "effect/Context";
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import type { Undone } from "../turn/AgentTurns.ts";

export interface StoredDeadLetter {
  /** Identifies the letter. Later letters have larger ones. */
  readonly seq: Sequence;
  readonly id: AgentId;
  /** A `DeadLetter` frame. One whose bytes are lost does not decode, and can still be removed. */
  readonly data: Uint8Array;
}

/** What an agent says of an input or job that it gives up. */
export interface GivenUp extends Undone {
  /** As `DeadLettersShape.put`. */
  readonly death: string | undefined;
}

export interface DeadLettersShape {
  /**
   * Stores a `DeadLetter` frame (`schemas/DeadLetter`). `death` tells what the letter is about from
   * all else of the agent (rule 1). Rejects with `BrokerUnavailable`.
   */
  readonly put: (id: AgentId, data: Uint8Array, death?: string) => Promise<void>;
  /** Dead letters kept now, over all agents. Rejects with `BrokerUnavailable`. */
  readonly count: () => Promise<number>;
  /** Those of one class or of all, oldest first, as a stream. Rejects with `BrokerUnavailable`. */
  readonly list: (className?: string) => AsyncIterable<StoredDeadLetter>;
  /** Undefined: there is no letter with that number any more. Rejects with `BrokerUnavailable`. */
  readonly get: (seq: Sequence) => Promise<StoredDeadLetter | undefined>;
  /** For good. False when there was none. Rejects with `BrokerUnavailable`. */
  readonly remove: (seq: Sequence) => Promise<boolean>;
}

export class DeadLetters extends Context.Service<DeadLetters, DeadLettersShape>()(
  "agents/core/dead/DeadLetters",
) {}
