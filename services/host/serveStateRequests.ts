/**
 * A request on an agent's state subject gives its current state. State subjects name no shard, so
 * one host of the group takes the request and asks the owner; committed states that pass by on the
 * same subject have no reply and are ignored. What is wrong with a request is answered in `error`.
 */
import { InvalidAddress, shardOf, type AgentId } from "../../schemas/Address.ts";
import { decodeMessage, encodeMessage, type CallReply } from "../../schemas/Call.ts";
import { stateMessage } from "./agentOutlet.ts";
import type { HostServices } from "./HostServices.ts";

/** The owner has this long; a follower asks again. */
const STATE_TIMEOUT_MS = 2000;

/** Serves until the returned function is called. */
export function serveStateRequests(services: HostServices): () => void {
  const { bus, config, log } = services;
  const { subjects } = config;
  const encoder = new TextEncoder();
  return bus.subscribe(
    `${subjects.namespace}.state.*.*`,
    ({ subject, reply }) => {
      if (reply === undefined) return;
      const answer = (text: string): void => bus.publish(reply, encoder.encode(text));
      let id: AgentId;
      try {
        id = subjects.addressOf(subject);
      } catch (error) {
        if (!(error instanceof InvalidAddress)) throw error;
        return answer(JSON.stringify({ error: error.message }));
      }
      const call = subjects.call(shardOf(id, config.shards), id);
      bus
        .request(call, encodeMessage({ kind: "state" }), { timeoutMs: STATE_TIMEOUT_MS })
        .then((owner) => {
          if (owner._tag !== "Reply") return;
          const { head } = decodeMessage<CallReply>(owner.data);
          if (head.kind === "error") answer(JSON.stringify({ ...id, error: head.message }));
          if (head.kind !== "state") return;
          const state = head.state === undefined ? undefined : JSON.stringify(head.state);
          answer(stateMessage(id, head.seq, head.time, state));
        })
        .catch((error: unknown) => log.warn("a state request failed", { error: String(error) }));
    },
    { queue: "state" },
  );
}
