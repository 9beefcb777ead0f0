/**
 * Stores a message in an agent's inbox, where it waits for `onEmail`. `routeAgentEmail` calls it,
 * in whatever process runs the module's code. It publishes to the inbox port, which stores large
 * messages elsewhere.
 *
 * 1. It resolves only once the message is stored. SMTP then answers 250.
 * 2. The key is made of Message-ID, recipient and a hash of the body. A message that is sent again
 *    because its 250 was lost is the same input; a different message with the same Message-ID is
 *    not. Headers are not hashed, because relays add their own.
 */
import { toHex } from "../../schemas/toHex.ts";
import * as Data from "effect/Data";
import type { AgentId } from "../../schemas/Address.ts";
import { encodeEnvelope, type InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { InboxShape } from "../inbox/Inbox.ts";
import type { TimeShape } from "../time/Time.ts";
import type { MailInput } from "./AgentEmail.ts";
import { bodyOffset, readHeaders } from "./mailHead.ts";

/** The broker was not reached in time. The sender has to try again. */
export class MailNotStored extends Data.TaggedError("MailNotStored")<{
  readonly message: string;
}> {}

/** Rejects with `MailNotStored`. */
export type MailDrop = (id: AgentId, mail: MailInput) => Promise<void>;

/** Senders wait minutes for the answer to DATA; a broker needs seconds to elect a leader. */
const STORE_DEADLINE_MS_DEFAULT = 10_000;

interface MailDropPorts {
  readonly inbox: Pick<InboxShape, "publish">;
  readonly time: TimeShape;
  readonly deadlineMs?: number;
}

export const makeMailDrop =
  ({ inbox, time, deadlineMs = STORE_DEADLINE_MS_DEFAULT }: MailDropPorts): MailDrop =>
  async (id, mail) => {
    const envelope = encodeEnvelope(await mailHead(mail, time.nowMs()), mail.raw);
    const giveUp = new AbortController();
    const cancelTimer = time.after(deadlineMs, () => giveUp.abort());
    try {
      const result = await inbox.publish(id, envelope, { signal: giveUp.signal });
      if (result._tag !== "Stored")
        throw new MailNotStored({ message: `The message could not be stored: ${result.message}` });
    } finally {
      cancelTimer();
    }
  };

/** Headers that the journal keeps with a message; the stored body has all of them. */
const JOURNALED_HEADERS = ["from", "to", "subject", "date", "message-id"];

export async function mailHead(mail: MailInput, nowMs: number): Promise<InboxHead> {
  const { from, to, raw, secureRouted } = mail;
  const headers = readHeaders(raw);
  const messageId = headers.get("message-id") ?? "";
  // A message without a Message-ID is identified by its whole text.
  const content = messageId === "" ? raw : raw.subarray(bodyOffset(raw));
  const body = await sha256(content);
  const key = await sha256(new TextEncoder().encode(`${messageId}\n${to.toLowerCase()}\n${body}`));
  const journaled = JOURNALED_HEADERS.flatMap((name) => {
    const value = headers.get(name);
    return value === null ? [] : [[name, value] as const];
  });
  return {
    key: `mail:${key}`,
    kind: "mail",
    time: nowMs,
    headers: Object.fromEntries(journaled),
    mail: { from, to, ...(secureRouted ? { secureRouted } : {}) },
  };
}

/** 128 bits, which do not collide by chance. */
const HASH_BYTES_KEPT = 16;

async function sha256(bytes: Uint8Array): Promise<string> {
  const hash = new Uint8Array(
    await crypto.subtle.digest("SHA-256", bytes as Uint8Array<ArrayBuffer>),
  );
  return toHex(hash.subarray(0, HASH_BYTES_KEPT));
}
