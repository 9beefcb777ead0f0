/**
 * Mail that leaves agent code past its lane waits for the commits before it, like its `fetch` (`gatedFetch`): what
 * `env.EMAIL.send` tells the world, and what `routeAgentEmail` gives to another agent.
 */
import type { MailDrop } from "../../core/mail/mailDrop.ts";
import type { MailTransportShape } from "../../core/mail/MailTransport.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

/** Outside of a turn there is nothing to wait for. */
async function commits(): Promise<void> {
  const owner = asyncAmbient.current()?.owner;
  if (owner instanceof ActiveAgent) await owner.flush();
}

export const gatedDrop =
  (drop: MailDrop): MailDrop =>
  async (id, mail) => {
    await commits();
    return drop(id, mail);
  };

/** For `env.EMAIL` only: the lane itself waits for its commit in its own way. */
export const gatedTransport = (transport: MailTransportShape): MailTransportShape => ({
  configured: transport.configured,
  send: async (mail) => {
    await commits();
    return transport.send(mail);
  },
});
