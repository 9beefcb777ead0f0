/** A message's parts (text, html, attachments, decoded headers), by `postal-mime`, loaded when it is first used. */
import type { Email } from "postal-mime";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";

/**
 * What can't be read as MIME is text. Rejects only for a message made to hurt: parts nested past 256 levels, a
 * head past 2 MiB; an `onEmail` that lets that pass sends the mail to the dead letters.
 */
export async function parseEmail(email: Pick<AgentEmail, "getRaw">): Promise<Email> {
  const { default: PostalMime } = await import("postal-mime");
  return PostalMime.parse(await email.getRaw());
}
