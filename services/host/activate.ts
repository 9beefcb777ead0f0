/**
 * Activation: from nothing in memory to a started agent. First phase of an agent's life on a host;
 * next: turns (`AgentSlot`), then hibernation (`hibernate.ts`).
 *
 * 1. The image is rebuilt (local cache, snapshot, journal tail).
 * 2. On the first activation under a new epoch a `claimed` event is appended: from then on an older
 *    owner's append is refused, and what this host reads can't be overtaken. An agent without a
 *    journal gets none, so that a name that was only asked for leaves nothing (`Committer`, 3).
 *    When the append is refused, an older owner's last event came in between: rebuild and try again.
 * 3. A clean local cache is not held against the journal first. Where its last event has this owner's epoch, nobody
 *    else can have written since: the agent is as if it had stayed in memory, and waking asks the broker nothing.
 *    Else the claim proves it: the journal takes it behind the cache's last event or not at all.
 * 4. The user's class is constructed and `onStart` runs.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { claimOf } from "../../core/journal/claimOf.ts";
import { rebuildAgent, type Rebuilt } from "../../core/journal/rebuildAgent.ts";
import { AgentPorts, type AgentKeeper, type Ownership } from "./AgentPorts.ts";
import type { HostServices } from "./HostServices.ts";
import type { MakeRoom } from "./makeRoom.ts";

/** Refusals in a row after which somebody else is surely writing: leave the agent to them. */
const CLAIM_ATTEMPTS_MAX = 5;

export interface ActivateOptions {
  readonly owner: Ownership;
  readonly home: AgentKeeper;
  readonly agentClass: AgentClassType;
  readonly props: unknown;
  /** Somebody waits for it: it goes before agents that only have inputs. */
  readonly urgent?: boolean;
  /** Of others, before this one is here. */
  readonly makeRoom?: MakeRoom | undefined;
}

export interface Activated {
  readonly agent: ActiveAgent;
  readonly seat: AgentPorts;
  readonly replayed: Rebuilt["replayed"];
  /** It has been in memory before: something of it is stored. */
  readonly cameBack: boolean;
}

/** Rejects with `BrokerUnavailable`, `CorruptFrame`, `AgentDiscarded`, or what the user's code throws. */
export async function activate(
  services: HostServices,
  id: AgentId,
  options: ActivateOptions,
): Promise<Activated> {
  const { urgent = false, owner, makeRoom } = options;
  const { rebuilt, claimed } = await services.rebuilds.pass(urgent, async () => {
    const room = makeRoom?.(!urgent);
    if (room !== undefined) await room;
    return rebuildAndClaim(services, id, owner);
  });
  const cameBack = rebuilt.seq > 0;
  const seat = new AgentPorts(services, rebuilt, options);
  const agent = new ActiveAgent(seat);
  options.home.prepare(agent);
  try {
    await agent.start(options.props);
  } catch (error) {
    agent.discard();
    throw error;
  }
  // Its last owner may have died between a commit and its frames.
  if (claimed) agent.sockets.tellState();
  return { agent, seat, replayed: rebuilt.replayed, cameBack };
}

async function rebuildAndClaim(
  services: HostServices,
  id: AgentId,
  owner: Ownership,
): Promise<{ readonly rebuilt: Rebuilt; readonly claimed: boolean }> {
  const { config, time, journal, databases, snapshots } = services;
  for (let attempt = 1; ; attempt++) {
    if (owner.signal.aborted) throw new AgentDiscarded();
    // Rule 3, once: what the claim refuted is read on from the journal.
    const sources = { journal, databases, snapshots, trustsCache: attempt === 1 };
    const rebuilt = await rebuildAgent(id, sources);
    const { image, database, unproven } = rebuilt;
    if (image.seq === 0 || image.epoch === owner.epoch) return { rebuilt, claimed: false };
    if (image.epoch > owner.epoch) {
      // A newer owner was here: our lease is gone, though we have not heard of it. Claiming now would
      // write an epoch that goes back (I3).
      database.close();
      throw new AgentDiscarded();
    }
    const head = claimOf(id, {
      host: config.hostId,
      epoch: owner.epoch,
      time,
      after: image.seq,
    });
    const result = await journal.append(id, encodeEvent(head), {
      expectedSeq: image.seq,
      signal: owner.signal,
    });
    if (result._tag === "Stored") {
      applyEvent(image, result.seq, head);
      return { rebuilt, claimed: true };
    }
    if (unproven && result._tag === "Conflict") {
      // Older than the journal, and good as far as it goes: nothing was written to it here.
      database.close({ seq: image.seq, core: image.encode() });
      continue;
    }
    database.close();
    // The cache may be what is wrong (it claims a sequence that the journal never had).
    databases.discard(id);
    if (result._tag === "Conflict") services.metrics.refusedAppends();
    if (result._tag === "Unknown" || attempt === CLAIM_ATTEMPTS_MAX) throw new AgentDiscarded();
  }
}
