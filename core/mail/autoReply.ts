/**
 * Recognizes mail that no person wrote. It must not be answered, or two machines could write to
 * each other forever (`protocol.md` §8, RFC 3834).
 */
import type { AgentEmail } from "./AgentEmail.ts";

/** One header of a message. */
export interface HeaderEntry {
  readonly key: string;
  readonly value: string;
}

const BULK = new Set(["bulk", "junk", "list"]);

/** Whether a message's headers mark it as an automatic reply or as bulk mail. Case is ignored. */
export function isAutoReplyEmail(headers: ReadonlyArray<HeaderEntry>): boolean {
  return headers.some(({ key, value }) => {
    const text = value.trim().toLowerCase();
    switch (key.toLowerCase()) {
      case "auto-submitted":
        // A parameter may follow: `auto-replied; owner-email="…"`.
        return text.split(";", 1)[0]!.trim() !== "no";
      case "x-auto-response-suppress":
        return true;
      case "precedence":
        return BULK.has(text);
      default:
        return false;
    }
  });
}

/** Why an answer to this message must not be sent; undefined if it may be answered. */
export function whyNoReply(email: Pick<AgentEmail, "from" | "headers">): string | undefined {
  if (email.from === "") return "it is a bounce: it has no sender";
  const entries = [...email.headers].map(([key, value]) => ({ key, value }));
  if (isAutoReplyEmail(entries)) return "it is an automatic message";
  // RFC 3834, section 2: whoever wrote to a list has not written to this address.
  const isOfList = entries.some(({ key }) => key.toLowerCase().startsWith("list-"));
  if (isReport(email)) return "it is a report about a mail";
  return isOfList ? "it came through a mailing list" : undefined;
}

/** Reports of delivery and of reading; those of older servers only have their sender's name. */
function isReport({ from, headers }: Pick<AgentEmail, "from" | "headers">): boolean {
  return (
    /^\s*multipart\/report\b/i.test(headers.get("content-type") ?? "") ||
    headers.get("return-path")?.trim() === "<>" ||
    /^mailer-daemon@/i.test(from)
  );
}
