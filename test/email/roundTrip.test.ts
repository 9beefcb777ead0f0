/** Mail by real SMTP, through a real installation, to a real relay and back. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import {
  Agent,
  routeAgentEmail,
  type AgentEmail,
  type AgentNamespace,
  getCurrentAgent,
} from "agents";
import {
  createAddressBasedEmailResolver,
  createSecureReplyEmailResolver,
  emailRoute,
  parseEmail,
  signAgentHeaders,
} from "agents/email";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { deliver, Sink, start, type SunkMail } from "./kit.ts";

const SECRET = "the secret of signed replies";

interface Env {
  readonly SupportAgent: AgentNamespace<SupportAgent>;
  readonly EMAIL: { send(message: never): Promise<unknown> };
}

interface Letter {
  readonly agent: string;
  readonly from: string;
  readonly subject: string;
  readonly text: string;
  readonly secure: boolean;
  readonly attachments: ReadonlyArray<{ readonly name: string; readonly base64: string }>;
  /** Letters of the agent's table, with this one. */
  readonly kept: number;
}

/** What agents of this process saw, in order. */
const letters: Letter[] = [];
const events: string[] = [];
let failing = 0;

class SupportAgent extends Agent<Env> {
  override async onEmail(email: AgentEmail): Promise<void> {
    events.push(`begin ${this.name}`);
    expect(getCurrentAgent().email).toBe(email);
    const mail = await parseEmail(email);
    if (failing > 0) {
      failing--;
      throw new Error("not yet");
    }
    this.sql`CREATE TABLE IF NOT EXISTS letters (subject TEXT)`;
    this.sql`INSERT INTO letters VALUES (${mail.subject ?? ""})`;
    letters.push({
      agent: this.name,
      from: email.from,
      subject: mail.subject ?? "",
      text: (mail.text ?? "").trim(),
      secure: email._secureRouted === true,
      kept: this.sql`SELECT * FROM letters`.length,
      attachments: mail.attachments.map(({ filename, content }) => ({
        name: filename ?? "",
        base64: Buffer.from(content as ArrayBuffer).toString("base64"),
      })),
    });
    if (mail.subject === "reject me late") return email.setReject("not for us");
    if (mail.subject === "forward me") return email.forward("boss@example.org");
    if (mail.subject === "write to two")
      return void (await this.sendEmail({
        binding: this.env.EMAIL,
        from: email.to,
        to: ["ok@example.org", "grey@example.org"],
        subject: "s",
        text: "t",
        html: "<p>t</p>",
      }));
    await this.replyToEmail(email, {
      fromName: "Suppört",
      body: `You wrote: ${mail.subject}`,
      secret: SECRET,
    });
  }
}

const secure = createSecureReplyEmailResolver(SECRET);
const byAddress = createAddressBasedEmailResolver("SupportAgent");

const server = {
  SupportAgent,
  default: {
    async email(message: AgentEmail, env: Env) {
      if (message.to === "closed@example.com") return message.setReject("We are closed");
      if (message.to === "broken@example.com") throw new Error("a defect of the module");
      await routeAgentEmail(message, env, {
        resolver: async (email, given) =>
          (await secure(email, given)) ??
          (email.to.startsWith("reply@") || email.to.startsWith("nobody@")
            ? null
            : byAddress(email, given)),
      });
    },
  },
};

describe("mail by SMTP", () => {
  let nats: TestNats;
  let sink: Sink;
  let system: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    nats = await startNats();
    sink = await Sink.open();
    const mail = { relayUrl: sink.url, messageBytesMax: 300_000 };
    system = await start({ role: "dev", nats: nats.url, namespace: "m", module: server, mail });
  });
  afterAll(async () => {
    await system?.stop();
    await sink?.close();
    await nats?.stop();
  });
  beforeEach(() => {
    letters.length = 0;
    events.length = 0;
    sink.mails.length = 0;
    sink.refuse = undefined;
    sink.refuseRecipient = undefined;
  });

  const send = (mail: Parameters<typeof deliver>[1]) => deliver(system.smtpPort, mail);
  const lettersGot = (count: number) =>
    pollUntil(`${count} letters`, () =>
      letters.length >= count
        ? { done: true, value: letters }
        : { done: false, saw: [letters, events, system.log.lines.slice(-5)] },
    );

  test("a multipart message with an attachment and unusual encodings arrives whole, and its reply stays in the thread", async () => {
    // 日本語の件名 in ISO-2022-JP, and a body in it.
    const japanese = Buffer.from("1b2442467c4b5c386c1b2842", "hex");
    const raw = Buffer.concat([
      Buffer.from(
        [
          "From: =?ISO-8859-1?Q?J=F6rg?= <joerg@example.org>",
          "To: SupportAgent+Case-7@example.com",
          "Subject: =?ISO-2022-JP?B?" + japanese.toString("base64") + "?=",
          "Message-ID: <first@example.org>",
          "References: <zero@example.org>",
          "MIME-Version: 1.0",
          'Content-Type: multipart/mixed; boundary="x"',
          "",
          "--x",
          "Content-Type: text/plain; charset=ISO-2022-JP",
          "Content-Transfer-Encoding: 7bit",
          "",
          "",
        ].join("\r\n"),
      ),
      japanese,
      Buffer.from(
        [
          "",
          "--x",
          "Content-Type: text/plain; charset=KOI8-R",
          "Content-Transfer-Encoding: quoted-printable",
          "",
          "=D0=D2=C9=D7=C5=D4 soft=",
          "ly",
          "--x",
          "Content-Type: application/octet-stream",
          "Content-Transfer-Encoding: base64",
          'Content-Disposition: attachment; filename="=?UTF-8?Q?gr=C3=BC=C3=9Fe.bin?="',
          "",
          Buffer.from([0, 255, 13, 10, 46, 10]).toString("base64"),
          "--x--",
          "",
        ].join("\r\n"),
      ),
    ]);
    const envelope = { from: "joerg@example.org", to: ["SupportAgent+Case-7@example.com"] };
    expect((await send({ raw, envelope })).code).toBe(250);
    const [letter] = await lettersGot(1);
    expect(letter).toMatchObject({ agent: "Case-7", from: "joerg@example.org", subject: "日本語" });
    expect(letter!.text).toContain("日本語");
    expect(letter!.text).toContain("привет softly");
    expect(letter!.attachments).toEqual([
      { name: "grüße.bin", base64: Buffer.from([0, 255, 13, 10, 46, 10]).toString("base64") },
    ]);
    const [answer] = await sink.got(1);
    const parsed = await parse(answer!);
    expect(answer).toMatchObject({
      from: "SupportAgent+Case-7@example.com",
      to: ["joerg@example.org"],
    });
    expect(parsed.from).toMatchObject({ name: "Suppört" });
    expect(parsed.subject).toBe("Re: 日本語");
    expect(parsed.inReplyTo).toBe("<first@example.org>");
    expect(parsed.references).toBe("<zero@example.org> <first@example.org>");
    expect(header(parsed, "auto-submitted")).toBe("auto-replied");
    expect(header(parsed, "x-agent-id")).toBe("Case-7");
  });

  test("a reply to the reply reaches the agent by its signed headers, which can't be forged", async () => {
    await send(plain("SupportAgent+Home@example.com", "hello"));
    const [answer] = await sink.got(1);
    const kept = Object.fromEntries(
      (await parse(answer!)).headers
        .filter(({ key }) => key.startsWith("x-agent-"))
        .map(({ key, value }) => [key, value]),
    );
    expect(Object.keys(kept).toSorted()).toEqual([
      "x-agent-id",
      "x-agent-name",
      "x-agent-sig",
      "x-agent-sig-ts",
    ]);
    const back = (headers: Record<string, string>) =>
      send({ ...plain("reply@example.com", "back"), headers });
    expect((await back(kept)).code).toBe(250);
    expect((await lettersGot(2))[1]).toMatchObject({ agent: "Home", secure: true });
    expect(await back({ ...kept, "x-agent-id": "Somebody" })).toMatchObject({ code: 550 });
    expect(await back({ ...kept, "x-agent-sig-ts": "17" })).toMatchObject({ code: 550 });
    const other = await signAgentHeaders("another secret", "support-agent", "Home");
    expect((await back(other)).response).toMatch(/^550 5\.1\.1/);
    await sink.got(2);
    expect(letters).toHaveLength(2);
  });

  test("one message for two agents runs on both; a redelivery runs on neither", async () => {
    const mail = {
      ...plain("a@example.com", "both", "<both@example.org>"),
      to: ["SupportAgent+Two-a@example.com", "SupportAgent+Two-b@example.com"],
    };
    expect((await send(mail)).code).toBe(250);
    expect((await send(mail)).code).toBe(250);
    expect((await send({ ...mail, text: "other words" })).code).toBe(250);
    await lettersGot(4);
    await sink.got(4);
    expect(letters.map(({ agent }) => agent).toSorted()).toEqual([
      "Two-a",
      "Two-a",
      "Two-b",
      "Two-b",
    ]);
    const ids = await Promise.all(sink.mails.map(async (m) => (await parse(m)).messageId));
    expect(new Set(ids).size).toBe(4);
  });

  test("a rejection is 550 with its reason, a missing route 550 5.1.1, a module that throws 451", async () => {
    expect((await send(plain("closed@example.com", "x"))).response).toMatch(/^550 .*We are closed/);
    expect((await send(plain("nobody@example.com", "x"))).response).toMatch(/^550 5\.1\.1/);
    expect((await send(plain("no-such+a@example.com", "x"))).response).toMatch(/^550 5\.1\.1/);
    expect((await send(plain("broken@example.com", "x"))).response).toMatch(/^451 /);
    expect(system.log.lines.some(({ message }) => message === "the module's email failed")).toBe(
      true,
    );
    // A failure for one recipient does not affect the others.
    const mixed = {
      ...plain("", "mixed"),
      to: ["closed@example.com", "SupportAgent+Mix@example.com"],
    };
    expect((await send(mixed)).code).toBe(250);
    expect((await lettersGot(1))[0]).toMatchObject({ agent: "Mix" });
    await sink.got(1);
  });

  test("a message without MIME structure is delivered; one that is too large is refused", async () => {
    const envelope = { from: "x@example.org", to: ["SupportAgent+Odd@example.com"] };
    const raw = Buffer.from(
      'no header\r\n: :\r\nContent-Type: multipart/mixed; boundary="\r\n\r\n\xff--',
    );
    expect((await send({ raw, envelope })).code).toBe(250);
    await lettersGot(1);
    const large = { ...plain("SupportAgent+Odd@example.com", "large"), text: "x".repeat(400_000) };
    expect((await send(large)).code).toBe(552);
    await sink.got(1);
    expect(letters).toHaveLength(1);
  });

  test("an onEmail that throws runs again, and its effects and reply happen once", async () => {
    failing = 2;
    expect((await send(plain("SupportAgent+Again@example.com", "again"))).code).toBe(250);
    await lettersGot(1);
    await sink.got(1);
    expect(events.filter((event) => event === "begin Again")).toHaveLength(3);
  });

  test("an automatic message gets no reply; setReject in onEmail notifies the sender; a forward is sent unchanged", async () => {
    const to = "SupportAgent+Auto@example.com";
    await send({ ...plain(to, "out of office"), headers: { "Auto-Submitted": "auto-replied" } });
    await send({ ...plain(to, "forward me"), headers: { "X-Mark": "1" } });
    await send(plain(to, "reject me late"));
    await lettersGot(3);
    const mails = await sink.got(2);
    expect(mails.map(({ from, to: rcpt }) => [from, ...rcpt])).toEqual([
      [to, "boss@example.org"],
      ["", "ann@example.org"],
    ]);
    expect(mails[0]!.raw.toString()).toMatch(/X-Mark: 1/i);
    expect(mails[1]!.raw.toString()).toContain("not for us");
  });

  test("an unavailable relay gets the identical message later; one that refuses gets it once", async () => {
    sink.attempts = 0;
    const refused: SunkMail[] = [];
    sink.refuse = (mail) => {
      refused.push(mail);
      return refused.length < 2 ? 451 : undefined;
    };
    await send(plain("SupportAgent+Retry@example.com", "retry"));
    const [sent] = await sink.got(1);
    expect(refused).toHaveLength(2);
    expect(refused[0]!.raw.equals(sent!.raw)).toBe(true);
    sink.attempts = 0;
    sink.refuse = () => 550;
    await send(plain("SupportAgent+Retry@example.com", "never"));
    await pollUntil("the refusal reaches the agent", () =>
      system.log.lines.some(
        ({ message, fields }) =>
          message === "an error in the agent's code" &&
          JSON.stringify(fields).includes("was refused"),
      ),
    );
    expect(sink.attempts).toBe(1);
  });

  test("a recipient that the relay defers gets the identical message later; the others get it once", async () => {
    let asked = 0;
    sink.refuseRecipient = (to) => (to === "grey@example.org" && ++asked < 2 ? 451 : undefined);
    await send(plain("SupportAgent+Retry@example.com", "write to two"));
    const [first, second] = await sink.got(2);
    expect([first!.to, second!.to]).toEqual([["ok@example.org"], ["grey@example.org"]]);
    expect(second!.raw.equals(first!.raw)).toBe(true);
  });

  test("declared routes refuse unknown recipients at once, and a mail past the broker's payload limit arrives whole", async () => {
    const sizes: number[] = [];
    class Box extends Agent {
      override async onEmail(email: AgentEmail) {
        const [attachment] = (await parseEmail(email)).attachments;
        sizes.push(email.rawSize, (attachment!.content as ArrayBuffer).byteLength);
      }
    }
    const module = { Box, default: { email: [emailRoute("box+*@example.com", { agent: Box })] } };
    const routed = await start({ role: "dev", nats: nats.url, namespace: "routed", module });
    try {
      expect((await deliver(routed.smtpPort, plain("a@example.com", "x"))).response).toMatch(
        /^550 5\.1\.1/,
      );
      const attachments = [{ filename: "large.bin", content: Buffer.alloc(3_000_000, 7) }];
      const mail = { ...plain("box+1@example.com", "large"), attachments };
      expect((await deliver(routed.smtpPort, mail)).code).toBe(250);
      await pollUntil("it arrived", () => sizes.length > 0);
      expect(sizes).toEqual([expect.any(Number), 3_000_000]);
      expect(sizes[0]).toBeGreaterThan(4_000_000);
    } finally {
      await routed.stop();
    }
  });

  test("an unavailable broker causes 451, and the message sent again arrives", async () => {
    const mail = plain("SupportAgent+Away@example.com", "away", "<away@example.org>");
    nats.freeze();
    try {
      expect((await send(mail)).response).toMatch(/^451 /);
    } finally {
      nats.thaw();
    }
    await pollUntil("it is taken", async () => {
      const { code, response } = await send(mail);
      return code === 250 ? { done: true, value: true } : { done: false, saw: response };
    });
    await pollUntil("it arrived", () => letters.some(({ agent }) => agent === "Away"), {
      timeoutMs: 30_000,
    });
    await sink.got(1);
    // A host whose lease ended while the broker stood still runs the turn again: what the first
    // run wrote and sent is gone.
    for (const { agent, kept } of letters) expect([agent, kept]).toEqual(["Away", 1]);
    expect(sink.mails).toHaveLength(1);
  });
});

const plain = (to: string, subject: string, messageId?: string) => ({
  from: "ann@example.org",
  to,
  subject,
  text: `about ${subject}`,
  ...(messageId === undefined ? {} : { messageId }),
});

const parse = (mail: SunkMail) => parseEmail({ getRaw: async () => new Uint8Array(mail.raw) });
const header = (mail: Awaited<ReturnType<typeof parse>>, name: string) =>
  mail.headers.find(({ key }) => key === name)?.value;
