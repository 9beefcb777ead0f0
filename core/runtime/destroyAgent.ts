/**
 * `destroy()`: the end of an agent's life (`protocol.md` §5).
 *
 * 1. One `destroyed` event is all that makes it so: state, SQL, schedules and queue are gone from
 *    it on, in replay as here. Before it is stored nothing is undone; so there is no half of it.
 * 2. From the call on nothing begins and nothing can be written: what was written before is stored
 *    first. But a durable turn that has written may go on for as long as that commit waits for its
 *    end (`Committer`, 3), else a half of it would be stored, and stay when the host dies before 1.
 * 3. The input that destroys is done with that event. Calls that run are answered; other inputs
 *    that run, and all that comes later, meet a fresh agent of the same name.
 * 4. Sockets are closed with 1001. Each belongs to a life of the agent: one that a dying host could
 *    not close is closed when the fresh agent meets it (`AgentSockets.resume`).
 */
import type { AgentOutlet } from "../turn/AgentOutlet.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";

/** The agent whose life ends. */
export interface DestroyedAgent extends Pick<AgentTurns, "id" | "image" | "committer" | "emit"> {
  /** Set when its `destroyed` event is stored. */
  destroyed: boolean;
  readonly lanes: { destroy(): void };
  readonly sockets: { destroy(): void };
}

/** Rejects with `AgentDiscarded` when the event could not be stored: nothing has happened then. */
export async function destroyAgent(
  agent: DestroyedAgent,
  turn: Turn,
  parts: {
    readonly outlet: Pick<AgentOutlet, "publishState">;
    readonly onDestroyed: (turn: Turn) => void;
  },
): Promise<void> {
  await agent.committer.destroy(turn);
  agent.destroyed = true;
  agent.lanes.destroy();
  agent.sockets.destroy();
  parts.outlet.publishState(agent.id, agent.image.seq, agent.image.timeMs, undefined);
  agent.emit("destroy", {});
  parts.onDestroyed(turn);
}
