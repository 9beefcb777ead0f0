/**
 * Activation, the first phase of an agent's life on a host: from nothing in memory to a started
 * agent. The next phases are turns (`AgentSlot`) and hibernation (`hibernateAgent`).
 *
 * 1. The image is rebuilt from the local cache, a snapshot and the journal's tail.
 * 2. The first activation under a new epoch appends a `claimed` event. From then on an older
 *    owner's append is refused, and what this host has read is the journal's end. An agent without
 *    a journal is not claimed, so that a name that was only looked up leaves nothing (`Committer`,
 *    rule 2). A refused append means that an older owner's last event came in between: the agent is
 *    rebuilt and claimed again.
 * 3. Opening a clean local cache does not read the journal. When the cache's last event has this
 *    owner's epoch, no other host can have written since, and waking needs no request to the
 *    broker. Otherwise the claim verifies the cache: the journal accepts it only behind the cache's
 *    last event.
 * 4. What turns that never ended have stored at the journal's end is undone (`undoParts`).
 * 5. The user's class is constructed and `onStart` runs.
 */
import type { AgentId } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { AgentDiscarded } from "../../core/errors/errors.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { applyEvent } from "../../core/journal/applyEvent.ts";
import { claimOf } from "../../core/journal/claimOf.ts";
import type { AppendResult } from "../../core/journal/Journal.ts";
import { rebuildAgent, replayEvent, type Rebuilt } from "../../core/journal/rebuildAgent.ts";
import { HistoryTrimmed } from "../../core/journal/HistoryTrimmed.ts";
import { undoParts, type UndoOptions } from "../../core/step/undoParts.ts";
import { AgentPorts, type AgentSupervisor, type Ownership } from "./AgentPorts.ts";
import type { HostServices } from "./HostServices.ts";
import type { MakeRoom } from "./makeRoom.ts";

/** After so many refusals in a row another owner surely writes: the activation gives up. */
const CLAIM_ATTEMPTS_MAX = 5;

interface ActivateOptions {
  readonly ownership: Ownership;
  readonly supervisor: AgentSupervisor;
  readonly agentClass: AgentClassType;
  readonly props: unknown;
  /** A caller waits: the agent is rebuilt before those that only have inputs. Default false. */
  readonly urgent?: boolean;
  /** Default: memory is not checked. */
  readonly makeRoom?: MakeRoom | undefined;
}

interface Activated {
  readonly agent: ActiveAgent;
  readonly ports: AgentPorts;
  readonly replayed: Rebuilt["replayed"];
  /** Something of the agent was stored, so it has been in memory before. */
  readonly cameBack: boolean;
}

/**
 * Activates an agent. Rejects with `BrokerUnavailable`, `CorruptFrame`, `AgentDiscarded` (the shard
 * belongs to another host), or what the user's code throws.
 */
export async function activate(
  services: HostServices,
  id: AgentId,
  options: ActivateOptions,
): Promise<Activated> {
  const { urgent = false, ownership, makeRoom } = options;
  const { rebuilt, claimed } = await services.rebuilds.run(urgent, async () => {
    const room = makeRoom?.(!urgent);
    if (room !== undefined) await room;
    return rebuildAndClaim(services, id, ownership);
  });
  const cameBack = rebuilt.seq > 0;
  const ports = new AgentPorts(services, rebuilt, options);
  const agent = new ActiveAgent(ports);
  options.supervisor.restoreSockets(agent);
  try {
    await agent.start(options.props);
  } catch (error) {
    agent.discard();
    throw error;
  }
  // The last owner may have died between a commit and its frames.
  if (claimed) agent.keeping.tellAgain();
  return { agent, ports, replayed: rebuilt.replayed, cameBack };
}

/** Phases 1 to 4. Rejects as `activate` does; the caller closes the database. */
export async function rebuildAndClaim(
  services: HostServices,
  id: AgentId,
  { epoch, signal }: Ownership,
): Promise<{ readonly rebuilt: Rebuilt; readonly claimed: boolean }> {
  const { config, time, journal, databases, snapshots } = services;
  for (let attempt = 1; ; attempt++) {
    if (signal.aborted) throw new AgentDiscarded();
    // Rule 3, on the first attempt only: after a refused claim the journal is read.
    const sources = { journal, databases, snapshots, trustsCache: attempt === 1 };
    const rebuilt = await rebuildAgent(id, sources);
    const { image, database, unproven } = rebuilt;
    if (image.epoch > epoch) {
      // A newer owner has written: our lease is lost, and the watch has not reported it yet. A
      // claim would write an epoch lower than the last (I3).
      database.close();
      throw new AgentDiscarded();
    }
    const isOurs = image.seq === 0 || image.epoch === epoch;
    const append: Append = (data) => journal.append(id, data, { expectedSeq: image.seq, signal });
    let result: AppendResult | undefined;
    if (!isOurs) {
      const head = claimOf(id, { host: config.hostId, epoch, time, after: image.seq });
      result = await append(encodeEvent(head));
      if (result._tag === "Stored") {
        applyEvent(image, result.seq, head);
        services.queries?.stored?.(id, result.seq, { head });
      }
    }
    if (result === undefined || result._tag === "Stored")
      result = (await undoTurns(services, rebuilt, { sources, epoch, append })) ?? result;
    if (result === undefined || result._tag === "Stored") return { rebuilt, claimed: !isOurs };
    if (unproven && result._tag === "Conflict") {
      // The cache is older than the journal and correct up to its last event: nothing was written
      // to it here.
      database.close({ seq: image.seq, core: image.encode() });
      continue;
    }
    database.close();
    // The cache may be wrong: it may name a sequence that the journal never had.
    databases.discard(id);
    if (result._tag === "Conflict") services.metrics.ofClass(id.class).refusedAppend();
    if (result._tag === "Unknown" || attempt === CLAIM_ATTEMPTS_MAX) throw new AgentDiscarded();
  }
}

type Append = (data: Uint8Array) => Promise<AppendResult>;

/** Rule 4. Undefined: nothing was appended, because nothing can be undone. */
async function undoTurns(
  { config, time, log }: HostServices,
  { image, database }: Rebuilt,
  { append, ...owner }: { readonly append: Append } & Pick<UndoOptions, "sources" | "epoch">,
): Promise<AppendResult | undefined> {
  const { id, parts } = image;
  if (parts === undefined) return undefined;
  const options = { image, database, parts, ...owner, host: config.hostId, time };
  const undoing = await undoParts(options).catch((error: unknown) => {
    if (error instanceof HistoryTrimmed) return undefined;
    database.close();
    throw error;
  });
  const told = { ...id, inputs: [...parts.turns.keys()] };
  if (undoing === undefined) {
    log.warn(
      "writes of an interrupted turn can't be undone, because their events are trimmed",
      told,
    );
    image.parts = undefined;
    return undefined;
  }
  const result = await append(undoing.data);
  if (result._tag === "Stored") {
    replayEvent(image, database, result.seq, undoing);
    log.info("writes of an interrupted turn were undone", told);
  }
  return result;
}
