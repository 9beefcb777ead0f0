/** Parses mail with `postal-mime`, which is loaded on first use. */
import type { Email } from "postal-mime";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";

/**
 * The parts of a message: text, html, attachments, decoded headers. A message that is not valid
 * MIME is returned as text. Rejects only for a hostile message: parts nested deeper than 256
 * levels, or a head longer than 2 MiB. An `onEmail` that passes this error on sends the mail to the
 * dead letters.
 */
export async function parseEmail(email: Pick<AgentEmail, "getRaw">): Promise<Email> {
  const { default: PostalMime } = await import("postal-mime");
  return PostalMime.parse(await email.getRaw());
}
