/**
 * An agent as the holder of sockets that its code opened with a stub's `fetch`. Each event of such
 * a socket runs as a turn of its own, in a Durable Object in order with the object's other events.
 * The agent stays in memory while it has a socket, and its sockets close when it leaves its host.
 */
import type { SocketHolder } from "../socket/PendingSocket.ts";
import { ObjectActor } from "../durableObject/ObjectActor.ts";
import type { ActiveAgent } from "./ActiveAgent.ts";

export const holderOf = (agent: ActiveAgent): SocketHolder => ({
  later: (f) => void agent.time.after(0, f),
  run: (f) => {
    if (agent.discarded) return;
    const turn = agent.newTurn({ kind: "background", time: agent.time.nowMs() });
    const actor = agent.agent;
    const event = () => (actor instanceof ObjectActor ? actor.inOrder(f) : f());
    agent.run(turn, event).catch(async (error: unknown) => {
      if (!agent.discarded) await agent.handleError(turn, error);
    });
  },
  hold: (leave) => {
    const awake = agent.keepAlive();
    agent.keeping.atLeave.add(leave);
    return () => {
      agent.keeping.atLeave.delete(leave);
      awake();
    };
  },
});
