/** A message's parts (text, html, attachments, decoded headers), by `postal-mime`, loaded when it is first used. */
import type { Email } from "postal-mime";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";

/** Whatever the bytes are there is a result: what can't be read as MIME is text. */
export async function parseEmail(email: Pick<AgentEmail, "getRaw">): Promise<Email> {
  const { default: PostalMime } = await import("postal-mime");
  return PostalMime.parse(await email.getRaw());
}
