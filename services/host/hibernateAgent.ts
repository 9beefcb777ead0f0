/**
 * The end of an agent's time in memory: its snapshot, its clean local files. A disk that fails costs the files and nothing else:
 * the journal has all of it. Called by `AgentSlot`, for an agent that rests.
 */
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { HostServices } from "./HostServices.ts";
import type { SnapshotPolicy } from "./SnapshotPolicy.ts";

export interface LeavingAgent {
  readonly agent: ActiveAgent;
  readonly snapshots: SnapshotPolicy;
  /** It had a past when it woke: it will be woken again. */
  readonly cameBack: boolean;
}

export function hibernateAgent(
  { log, databases }: Pick<HostServices, "log" | "databases">,
  { agent, snapshots, cameBack }: LeavingAgent,
): void {
  const { id, seq, pages } = agent.image;
  try {
    snapshots.beforeHibernation();
    agent.retire();
    // Many are touched once, and without a database a few events bring them back: they are not worth a file.
    if (pages === 0 && !cameBack) agent.database.close();
    else agent.database.close({ seq, core: agent.image.encode() });
  } catch (error) {
    log.error("an agent's local files failed as it left memory; they are not used again", {
      ...id,
      error: String(error),
    });
    agent.discard();
    databases.discard(id);
  }
}
