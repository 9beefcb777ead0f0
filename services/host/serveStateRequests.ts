/**
 * Serves requests on agents' state subjects with the current state. State subjects name no shard,
 * so one host of the group receives the request and asks the owner. Committed states on the same
 * subject have no reply subject and are ignored. An invalid request is answered with an `error`
 * field.
 */
import { InvalidAddress, shardOf, type AgentId } from "../../schemas/Address.ts";
import type { CallReply } from "../../schemas/bus/CallReply.ts";
import { decodeMessage, encodeMessage } from "../../schemas/bus/message.ts";
import { stateMessage } from "./agentOutlet.ts";
import type { HostServices } from "./HostServices.ts";

/** How long the owner may take; the requester repeats its request. */
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
