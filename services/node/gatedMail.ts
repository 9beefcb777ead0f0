/**
 * Makes mail that agent code sends without the mail lane wait for the commits before it, as its
 * `fetch` does (`gatedFetch`): mail of `env.EMAIL.send`, and mail that `routeAgentEmail` passes to
 * another agent.
 */
import type { MailDrop } from "../../core/mail/mailDrop.ts";
import type { MailTransportShape } from "../../core/mail/MailTransport.ts";
import { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import { asyncAmbient } from "./AsyncAmbient.ts";

/** Resolves when the current turn's commits are stored. At once outside of a turn. */
async function priorCommits(): Promise<void> {
  const owner = asyncAmbient.current()?.owner;
  if (owner instanceof ActiveAgent) await owner.flush();
}

export const gatedDrop =
  (drop: MailDrop): MailDrop =>
  async (id, mail) => {
    await priorCommits();
    return drop(id, mail);
  };

/** For `env.EMAIL` only: the mail lane waits for its commit itself. */
export const gatedTransport = (transport: MailTransportShape): MailTransportShape => ({
  configured: transport.configured,
  send: async (mail) => {
    await priorCommits();
    return transport.send(mail);
  },
});
