/** Mail: what is read of a message's bytes and envelope, and SMTP sessions with a real listener. */
import { connect } from "node:net";
import { Effect, Exit, Scope } from "effect";
import { ReceivedEmail } from "../../../core/mail/AgentEmail.ts";
import { whyNoReply } from "../../../core/mail/autoReply.ts";
import { createAddressBasedEmailResolver, splitAddress } from "../../../core/mail/EmailResolver.ts";
import { mailHead } from "../../../core/mail/mailDrop.ts";
import { decodeWords } from "../../../core/mail/mailHead.ts";
import { createSecureReplyEmailResolver, parseEmail } from "../../../services/email/index.ts";
import { smtpListener } from "../../../services/smtp/SmtpListener.ts";
import { exchange } from "../exchange.ts";
import { Broken, joined, partsOf, pure, type FuzzTarget } from "../Target.ts";

const byAddress = createAddressBasedEmailResolver("Help");
const byReply = createSecureReplyEmailResolver("secret");
const ACTIONS = { reject: () => undefined, forward: async () => undefined, reply: async () => undefined }; // prettier-ignore

async function readMail(input: Uint8Array): Promise<void> {
  const [from, to, raw] = partsOf(input, 3) as [Buffer, Buffer, Buffer];
  const mail = { from: from.toString(), to: to.toString(), raw, secureRouted: false };
  const head = await mailHead(mail, 1);
  if (!/^mail:\w+$/.test(head.key)) throw new Broken(`a key is ${head.key}`);
  const email = new ReceivedEmail(mail, ACTIONS);
  for (const [, value] of email.headers) decodeWords(value);
  whyNoReply(email);
  const parts = splitAddress(mail.to);
  if (parts !== undefined && parts.local.length + parts.domain.length + 1 !== mail.to.length)
    throw new Broken("an address is more than its parts");
  await byAddress(email, {});
  const routed = await byReply(email, {});
  if (routed !== null) throw new Broken("a reply that nobody signed is routed");
  await parseEmail(email);
}

const MESSAGE = [
  "From: =?utf-8?B?w6Q=?= <a@example.com>", "To: help+1@example.net", "Subject: =?iso-8859-1?Q?=E4_b?=", " folded",
  "Message-ID: <1@x>", "Auto-Submitted: no", "X-Agent-Name: help", "X-Agent-ID: 1", "X-Agent-Sig: YQ==", "X-Agent-Sig-Ts: 1",
  'Content-Type: multipart/mixed; boundary="b"', "", "--b", "Content-Type: text/plain; charset=utf-8",
  "Content-Transfer-Encoding: quoted-printable", "", "=C3=A4", "--b", "Content-Type: image/png; name*=utf-8''x.png",
  "Content-Transfer-Encoding: base64", "", "iVBORw0KGgo=", "--b--", "",
].join("\r\n"); // prettier-ignore

const WORDS = ["\r\n", "\r\n.\r\n", "=?utf-8?Q?", "?=", "MAIL FROM:<", "RCPT TO:<", ">", "DATA\r\n", "BDAT 5 LAST\r\n", "RSET\r\n", "AUTH PLAIN ", "STARTTLS\r\n", "SIZE=99999999999", "\0", "--b", "boundary=", "charset=", "base64", "\n", "\r", "XCLIENT ", "XFORWARD ", "HELO ", "VRFY "]; // prettier-ignore

const SESSION = `EHLO x\r\nMAIL FROM:<a@example.com> SIZE=100\r\nRCPT TO:<help@example.net>\r\nDATA\r\n${MESSAGE}\r\n.\r\nQUIT\r\n`; // prettier-ignore

const MESSAGE_BYTES_MAX = 64 * 1024;

async function openSmtp() {
  const scope = Scope.makeUnsafe();
  const listening = smtpListener.listen(
    {
      hostname: "127.0.0.1",
      port: 0,
      messageBytesMax: MESSAGE_BYTES_MAX,
      bytesInFlightMax: 1024 * 1024,
      messageTimeoutMs: 5_000,
      recipientsMax: 10,
      connectionsMax: 100,
      connectionsPerPeerMax: 100,
      idleTimeoutMs: 5_000,
    },
    {
      peer: () => ({ _tag: "Accepted" }),
      recipient: (address) =>
        address.includes("nobody")
          ? { _tag: "Rejected", code: "5.1.1", message: "nobody" }
          : { _tag: "Accepted" },
      message: async ({ to, raw }) => {
        if (to.length === 0 || to.length > 10) throw new Broken(`${to.length} recipients`);
        if (raw.length > MESSAGE_BYTES_MAX) throw new Broken(`${raw.length} bytes`);
        return { _tag: "Accepted" };
      },
    },
  );
  const { port } = await Effect.runPromise(Scope.provide(listening, scope));
  const dial = () => connect(port, "127.0.0.1");
  return {
    run: async (input: Uint8Array) => {
      await exchange(dial(), input, { greeted: true });
      const said = await exchange(dial(), Buffer.from(SESSION), { greeted: true });
      if (!/^250 OK: /m.test(said) && (said.match(/^250/gm)?.length ?? 0) < 4)
        throw new Broken(`the next message is not taken: ${said}`);
    },
    close: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  };
}

export const mailTargets: ReadonlyArray<FuzzTarget> = [
  {
    name: "mail",
    seeds: [joined("a@example.com", "help+1@example.net", MESSAGE), joined("", "x@[127.0.0.1]", "\n")],
    words: WORDS,
    open: pure(readMail),
  },
  { name: "smtp", seeds: [Buffer.from(SESSION), Buffer.from("HELO\r\nNOOP\r\n")], words: WORDS, open: openSmtp },
]; // prettier-ignore
