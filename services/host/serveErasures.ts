/**
 * Removes an erased agent's local files on every host, including one that owned the agent long ago,
 * and its row in the host's view of all agents. The agent's owner has ended its life before
 * (`Maintenance.erase`). The reply is the host's id, so that `agents erase` can report which hosts
 * were notified.
 */
import { addressKey } from "../../schemas/Address.ts";
import { encodeMessage, type ErasureReply } from "../../schemas/bus/message.ts";
import type { HostServices } from "./HostServices.ts";

/** Serves until the returned function is called. */
export function serveErasures(services: HostServices): () => void {
  const { bus, config, databases, log, queries } = services;
  const { subjects, hostId } = config;
  const answer = (reply: string | undefined): void => {
    if (reply !== undefined) bus.publish(reply, encodeMessage<ErasureReply>({ host: hostId }));
  };
  const end = bus.subscribe(subjects.erasures, ({ subject, reply }) => {
    try {
      const id = subjects.addressOf(subject);
      databases.discard(id);
      log.info("local files of an erased agent were removed", { agent: addressKey(id) });
    } catch (error) {
      // The agent is in memory here again: its files belong to the life that began after the
      // erasure.
      log.debug("an erased agent is in memory again", { subject, error: String(error) });
    }
    if (queries === undefined) return answer(reply);
    queries.erased().then(
      () => answer(reply),
      // Without an answer, the erasure names this host as one whose files may still have the agent.
      (error: unknown) =>
        log.warn("an erased agent may still be in the view of all agents", {
          error: String(error),
        }),
    );
  });
  return () => void end();
}
