/**
 * Puts a message into an agent's inbox, where it waits for `onEmail`. Fed by `routeAgentEmail` on
 * whatever process the module's code runs; feeds the inbox port (which stores large ones
 * elsewhere).
 *
 * 1. It resolves only when the message is stored: SMTP says 250 after that.
 * 2. The key is made of Message-ID, recipient and a hash of the body. A message that is sent again
 *    (its 250 was lost) is the same input; another message with the same Message-ID is not. Headers
 *    are not hashed, since relays on the way add theirs.
 */
import * as Data from "effect/Data";
import type { AgentId } from "../../schemas/Address.ts";
import { encodeEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { InboxShape } from "../inbox/Inbox.ts";
import type { TimeShape } from "../time/Time.ts";
import type { MailInput } from "./AgentEmail.ts";
import { bodyOffset, readHeaders } from "./mailHead.ts";

/** The broker can't be reached, or not in time: the sender has to try again. */
export class MailNotStored extends Data.TaggedError("MailNotStored")<{
  readonly message: string;
}> {}

/** Rejects with `MailNotStored`. */
export type MailDrop = (id: AgentId, mail: MailInput) => Promise<void>;

/** Senders wait minutes for the answer to DATA; a broker that elects a leader takes seconds. */
const STORE_DEADLINE_MS_DEFAULT = 10_000;

export interface MailDropPorts {
  readonly inbox: Pick<InboxShape, "publish">;
  readonly time: TimeShape;
  readonly deadlineMs?: number;
}

export const makeMailDrop =
  ({ inbox, time, deadlineMs = STORE_DEADLINE_MS_DEFAULT }: MailDropPorts): MailDrop =>
  async (id, mail) => {
    const envelope = encodeEnvelope(await mailHead(mail, time.nowMs()), mail.raw);
    const giveUp = new AbortController();
    const inTime = time.after(deadlineMs, () => giveUp.abort());
    try {
      const result = await inbox.publish(id, envelope, { signal: giveUp.signal });
      if (result._tag !== "Stored")
        throw new MailNotStored({ message: `The message could not be stored: ${result.message}` });
    } finally {
      inTime();
    }
  };

/** Headers that the journal tells of a message; its body has them all. */
const TOLD = ["from", "to", "subject", "date", "message-id"];

export async function mailHead(mail: MailInput, nowMs: number): Promise<InboxHead> {
  const { from, to, raw, secureRouted } = mail;
  const headers = readHeaders(raw);
  const messageId = headers.get("message-id") ?? "";
  // A message without an id of its own is identified by its whole text.
  const content = messageId === "" ? raw : raw.subarray(bodyOffset(raw));
  const body = await sha256(content);
  const key = await sha256(new TextEncoder().encode(`${messageId}\n${to.toLowerCase()}\n${body}`));
  const told = TOLD.flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value] as const];
  });
  return {
    key: `mail:${key}`,
    kind: "mail",
    time: nowMs,
    headers: Object.fromEntries(told),
    mail: { from, to, ...(secureRouted ? { secureRouted } : {}) },
  };
}

/** Hex digits kept of a hash: 128 bits. */
const HASH_BYTES_KEPT = 16;

async function sha256(bytes: Uint8Array): Promise<string> {
  const hash = new Uint8Array(
    await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>),
  );
  return Array.from(hash.subarray(0, HASH_BYTES_KEPT), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
}
