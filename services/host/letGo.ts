/**
 * The end of an agent's time in memory: its snapshot, its clean local files. A disk that fails costs the files and nothing else:
 * the journal has all of it. Called by `AgentSlot`, for an agent that rests.
 */
import type { ActiveAgent } from "../../core/turn/ActiveAgent.ts";
import type { HostServices } from "./HostServices.ts";
import type { SnapshotPolicy } from "./SnapshotPolicy.ts";

export function letGo(
  { log, databases }: Pick<HostServices, "log" | "databases">,
  { agent, snapshots }: { readonly agent: ActiveAgent; readonly snapshots: SnapshotPolicy },
): void {
  const { id, seq, pages } = agent.image;
  try {
    snapshots.beforeHibernation();
    agent.retire();
    // Without a database the few events since the snapshot are read as quickly as a file.
    if (pages === 0) agent.database.close();
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
