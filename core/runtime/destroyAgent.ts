/**
 * `destroy()`: the end of an agent's life (`protocol.md` §5).
 *
 * 1. One `destroyed` event ends the life: state, SQL, schedules and queue are gone from then on,
 *    live and in replay. Nothing is removed before the event is stored, so the end happens
 *    completely or not at all.
 * 2. After the call nothing begins and nothing can be written; earlier writes are stored first. A
 *    durable turn that has written may continue while that commit waits for its end (`Committer`,
 *    3). Otherwise half of the turn would be stored, and would stay if the host died before the
 *    `destroyed` event.
 * 3. The input that destroys is done with that event. Running calls are answered. Other running
 *    inputs, and later ones, start a new agent of the same name.
 * 4. Sockets are closed with 1001. Each belongs to a life of the agent: one that a dying host could
 *    not close is closed when the new agent meets it (`AgentSockets.resume`).
 */
import type { AgentOutlet } from "../turn/AgentOutlet.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";

/** The agent whose life ends. */
interface DestroyedAgent extends Pick<AgentTurns, "id" | "image" | "committer" | "emit"> {
  /** Set when its `destroyed` event is stored. */
  destroyed: boolean;
  readonly lanes: { destroy(): void };
  readonly sockets: { destroy(): void };
}

/** Rejects with `AgentDiscarded` if the event could not be stored; nothing has happened then. */
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
