/**
 * Puts an agent back to an earlier point for `agents restore`, on the host that owns it. Before
 * this, `Maintenance` takes the agent out of memory; after it, the agent wakes on what was put
 * back.
 *
 * 1. The event is appended by compare-and-set behind the journal's end, under the owner's epoch.
 *    A refused or unknown attempt is repeated; a repetition finds the key done.
 * 2. An agent that was destroyed or erased since the command looked is not put back: that would
 *    bring back data whose removal the operator has not seen.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { stateTextOf, type Snapshot } from "../../schemas/Snapshot.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { restoreEvent } from "../../core/restore/restoreEvent.ts";
import { timerOf } from "../../core/schedule/BrokerTimers.ts";
import { rebuildAndClaim } from "./activate.ts";
import { agentOutlet } from "./agentOutlet.ts";
import type { Ownership } from "./AgentPorts.ts";
import type { HostServices } from "./HostServices.ts";

interface RestoreRequest {
  readonly key: string;
  /** Rule 2: the life that it was in, as `AgentImage.life`. */
  readonly life: number;
  readonly to: Snapshot;
}

/**
 * Returns the sequence of the event. Rejects with `AgentDiscarded` (ask again),
 * `BrokerUnavailable`, `CorruptFrame`, or an error for people.
 */
export async function restoreAgent(
  { services, ...ownership }: Ownership & { readonly services: HostServices },
  id: AgentId,
  { key, life, to }: RestoreRequest,
): Promise<number> {
  const { databases, journal, timers, time, config } = services;
  const { rebuilt } = await services.rebuilds.run(true, () =>
    rebuildAndClaim(services, id, ownership),
  );
  const { image, database } = rebuilt;
  try {
    const doneAt = image.done.seqOf(key);
    if (doneAt !== undefined) return doneAt;
    const [className, name] = to.head.agent;
    if (className !== id.class || name !== id.name || to.head.seq > image.seq)
      throw new Error(`the snapshot is of ${className}/${name} at ${to.head.seq}, not of its past`);
    if (image.life !== life)
      throw new Error("it was destroyed or erased in the meantime: check its history again");
    const { epoch, signal } = ownership;
    const host = config.hostId;
    const event = restoreEvent({ image, database, databases, to, key, host, epoch, time });
    const timer = event.first === undefined ? undefined : timerOf(event.first);
    if (timer !== undefined) await timers.arm(id, timer.name, timer.dueMs, timer.envelope);
    const stored = await journal.append(id, event.data, { expectedSeq: image.seq, signal });
    if (stored._tag !== "Stored") throw new AgentDiscarded();
    agentOutlet(services).publishState(id, stored.seq, event.head.time, stateTextOf(to.head));
    return stored.seq;
  } finally {
    database.close();
    databases.discard(id);
  }
}
