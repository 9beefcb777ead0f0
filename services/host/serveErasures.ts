/**
 * Removes an erased agent's local files on every host, including one that owned the agent long ago.
 * The agent's owner has ended its life before (`AgentSlot.erase`). The reply is the host's id, so
 * that `agents erase` can report which hosts were notified.
 */
import { addressKey } from "../../schemas/Address.ts";
import { encodeMessage, type ErasureReply } from "../../schemas/Call.ts";
import type { HostServices } from "./HostServices.ts";

/** Serves until the returned function is called. */
export function serveErasures({ bus, config, databases, log }: HostServices): () => void {
  const { subjects, hostId } = config;
  const end = bus.subscribe(subjects.erasures, ({ subject, reply }) => {
    try {
      const id = subjects.addressOf(subject);
      databases.discard(id);
      log.info("local files of an erased agent are removed", { agent: addressKey(id) });
    } catch (error) {
      // The agent is in memory here again: its files belong to the life that began after the
      // erasure.
      log.debug("an erased agent is in memory again", { subject, error: String(error) });
    }
    if (reply !== undefined) bus.publish(reply, encodeMessage<ErasureReply>({ host: hostId }));
  });
  return () => void end();
}
