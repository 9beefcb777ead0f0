/**
 * Hibernation, the last phase of an agent's life on a host: takes a snapshot where one is due, and
 * leaves clean local files. A failing disk costs the files and nothing else, because the journal
 * holds every event. Called by `AgentSlot` for an idle agent.
 */
import type { Mailbox } from "../../core/input/Mailbox.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { HostServices } from "./HostServices.ts";
import type { SnapshotPolicy } from "./SnapshotPolicy.ts";

interface HibernatingAgent {
  readonly agent: ActiveAgent;
  readonly snapshots: SnapshotPolicy;
  /** As `Activated.cameBack`: an agent that was woken before is likely to be woken again. */
  readonly cameBack: boolean;
}

/** An agent in memory, and what its slot keeps for it. */
export type Live = HibernatingAgent & { readonly mailbox: Mailbox };

export const isIdle = (live: Live | undefined): live is Live =>
  live !== undefined && live.agent.idle && live.mailbox.idle;

/** Never throws. The agent is retired afterwards, or discarded where its files failed. */
export function hibernateAgent(
  { log, databases }: Pick<HostServices, "log" | "databases">,
  { agent, snapshots, cameBack }: HibernatingAgent,
): void {
  const { id, seq, pages } = agent.image;
  try {
    snapshots.beforeHibernation();
    agent.retire();
    // Many agents are used once. Without a database a few events rebuild them, so no file is
    // written.
    if (pages === 0 && !cameBack) agent.database.close();
    else agent.database.close({ seq, core: agent.image.encode() });
  } catch (error) {
    log.error("writing an agent's local files failed at hibernation; they are no longer used", {
      ...id,
      error: String(error),
    });
    agent.discard();
    databases.discard(id);
  }
}
