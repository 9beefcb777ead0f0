/**
 * Runs one stored message as the agent's `onEmail`. Messages that the hook asks for (an answer, a
 * forward) wait in the agent's mail lane and leave after this turn is stored.
 *
 * SMTP was answered when the message was stored. `setReject` therefore notifies the sender by a
 * separate message, where such a message is allowed.
 */
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { CorruptFrame } from "../../schemas/Frame.ts";
import { ReceivedEmail, type AgentEmail } from "../mail/AgentEmail.ts";
import { composeForward, composeRaw, composeRejection } from "../mail/composeReply.ts";
import { decodeWords, headerText } from "../mail/mailHead.ts";
import type { MailLane } from "../outgoing/MailLane.ts";
import type { AgentTurns } from "../turn/AgentTurns.ts";
import type { Turn } from "../turn/Turn.ts";

/** The agent that a message came to. */
export interface MailAgent extends Pick<AgentTurns, "log" | "emit"> {
  readonly mail: Pick<MailLane, "send">;
  readonly agent: { onEmail?(email: AgentEmail): void | Promise<void> };
}

/** Rejects with what `onEmail` throws. */
export async function runMail(
  agent: MailAgent,
  turn: Turn,
  head: InboxHead,
  body: Uint8Array,
): Promise<void> {
  if (head.mail === undefined) throw new CorruptFrame({ message: "a mail without its envelope" });
  const { from, to, secureRouted = false } = head.mail;
  let rejected: string | undefined;
  const email: AgentEmail = new ReceivedEmail(
    { from, to, raw: body, secureRouted },
    {
      reject: (reason) => void (rejected ??= reason),
      forward: async (recipient, headers) =>
        void agent.mail.send(await composeForward(email, recipient, headers)),
      reply: async (message) => void agent.mail.send(await composeRaw(message, "reply")),
    },
    head.time,
  );
  turn.email = email;
  const subject = headerText(email.headers, "subject");
  const told = { from, to, ...(subject === null ? {} : { subject: decodeWords(subject) }) };
  agent.emit("email:receive", told);
  if (typeof agent.agent.onEmail !== "function") {
    agent.log.warn("a mail was dropped, because the agent has no onEmail", told);
    return;
  }
  await agent.agent.onEmail(email);
  if (rejected !== undefined) tellRejected(agent, email, rejected);
}

function tellRejected(agent: MailAgent, email: AgentEmail, reason: string): void {
  const { from, to } = email;
  try {
    const draft = composeRejection(email, reason);
    if (draft !== undefined) agent.mail.send(draft);
    agent.log.info("a mail was rejected", { from, to, reason, told: draft !== undefined });
  } catch (error) {
    // Without a relay or a valid address no notice can be sent; the message itself was handled.
    agent.log.warn("a mail was rejected, but its sender can't be notified", {
      from,
      to,
      reason,
      error: String(error),
    });
  }
}
