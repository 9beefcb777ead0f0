/** The event by which an owner fences off earlier owners. It does not change the agent. */
import type { AgentId, Epoch, Sequence } from "../../schemas/Address.ts";
import type { JournalHead } from "../../schemas/JournalEvent.ts";
import type { TimeShape } from "../time/Time.ts";

export const claimOf = (
  id: AgentId,
  owner: {
    readonly host: string;
    readonly epoch: Epoch;
    readonly time: TimeShape;
    readonly after: Sequence;
  },
): JournalHead => ({
  id: owner.time.id(),
  agent: [id.class, id.name],
  kind: "claimed",
  host: owner.host,
  epoch: owner.epoch,
  time: owner.time.nowMs(),
  turns: [],
  after: owner.after,
});
