/**
 * The port of quarantine marks: which agents are quarantined, for all hosts to see. A host that
 * claims a shard reads the marks of its agents before it runs any of them.
 *
 * 1. One mark per agent; a later one replaces it.
 * 2. The owner of the agent's shard writes it. Where no host runs, `agents release` does.
 * 3. `list` is not older than the last `put` that has resolved.
 *
 * Adapters: `services/nats/NatsQuarantines`, `services/memory/MemoryQuarantines`; one conformance
 * suite.
 */
import * as Context from "effect/Context";
import type { AgentId } from "../../schemas/Address.ts";
import type { QuarantineMark } from "../../schemas/QuarantineMark.ts";

export interface MarkedAgent {
  readonly id: AgentId;
  readonly mark: QuarantineMark;
}

export interface QuarantinesShape {
  /** Rejects with `BrokerUnavailable`, after which it may be stored. */
  readonly put: (id: AgentId, mark: QuarantineMark) => Promise<void>;
  /** Every mark, also those that are over. Unreadable ones are left out. Rejects as `put`. */
  readonly list: () => Promise<ReadonlyArray<MarkedAgent>>;
}

export class Quarantines extends Context.Service<Quarantines, QuarantinesShape>()(
  "agents/core/quarantine/Quarantines",
) {}
