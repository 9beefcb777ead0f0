/** Mail that agents send: what leaves, when, how often, and what never does. */
import PostalMime from "postal-mime";
import { describe, expect, test, vi } from "vitest";
import { Agent, routeAgentEmail, type AgentEmail, type SendEmailOptions } from "agents";
import { createCatchAllEmailResolver, createSecureReplyEmailResolver } from "agents/email";
import { subscribe } from "agents/observability";
import { testAgents } from "agents/testing";
import { readAddress } from "../../core/mail/composeMail.ts";
import type { OutgoingMail } from "../../core/mail/MailTransport.ts";
import { pollUntil } from "../kit/poll.ts";

interface Env {
  readonly EMAIL: SendEmailOptions["binding"];
}

class Writer extends Agent<Env> {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 2 } };
  errors: string[] = [];

  write(given: Partial<SendEmailOptions> = {}) {
    const usual = { from: "Me <me@example.com>", to: "you@example.org", subject: "s", text: "t" };
    return this.sendEmail({ binding: this.env.EMAIL, ...usual, ...given });
  }
  async writeTwo(given: Partial<SendEmailOptions>) {
    await this.write(given);
    await this.write(given);
  }
  writeWithout() {
    return this.write({ binding: undefined });
  }
  async writeByOwn() {
    const seen: unknown[] = [];
    const binding = {
      send: async (message: unknown) => ({ messageId: `own ${seen.push(message)}` }),
    };
    return [await this.write({ binding, secret: "k", inReplyTo: "<first@x>" }), seen];
  }
  async writeAndAbort() {
    await this.write();
    this.ctx.abort("before the commit");
  }
  override onError(error: unknown) {
    this.errors.push(String(error));
  }
  lastErrors() {
    return this.errors;
  }
}

type Reply = Partial<Parameters<Agent["replyToEmail"]>[1]>;
let reply: Reply = {};

class Replier extends Agent<Env, { got: number }> {
  override initialState = { got: 0 };
  override async onEmail(email: AgentEmail) {
    // As modules written for the reference do.
    const parsed = await PostalMime.parse(await email.getRaw());
    this.setState({ got: this.state.got + 1 });
    await this.replyToEmail(email, { fromName: "R", body: `${parsed.text}`, ...reply });
    await this.replyToEmail(email, { fromName: "R", body: "second", ...reply });
  }
}

const secret = "k";
const secure = createSecureReplyEmailResolver(secret);
const module = {
  Writer,
  Replier,
  default: {
    async email(message: AgentEmail, env: Env) {
      const rest = createCatchAllEmailResolver("replier", "one");
      await routeAgentEmail(message, env, {
        resolver: async (email, given) => (await secure(email, given)) ?? rest(email, given),
      });
    },
  },
};

const MAIL = { from: "ann@example.org", to: "r@example.com", subject: "Hi", text: "words" };

describe("sendEmail", () => {
  test("sends once the turn is stored, with the agent's headers over the caller's", async () => {
    await using t = await testAgents({ module });
    const events: unknown[] = [];
    const end = subscribe("email", (event) => events.push([event.type, event.payload]));
    const { messageId } = await t.agent(Writer, "w 1").write({
      headers: { "x-agent-id": "forged", "X-Own": "1" },
      secret,
      cc: ["c@example.org"],
      inReplyTo: "<before@example.org>",
    });
    await t.settled();
    end();
    expect(messageId).toMatch(/^<w=201\.\S+@example\.com>$/);
    const [sent] = t.sends();
    expect(sent).toMatchObject({ kind: "email", agent: { class: "Writer", name: "w 1" } });
    expect(sent!.mail).toMatchObject({
      id: messageId,
      from: { address: "me@example.com", name: "Me" },
      to: [{ address: "you@example.org" }],
      cc: [{ address: "c@example.org" }],
      inReplyTo: "<before@example.org>",
      references: ["<before@example.org>"],
      parts: [{ contentType: "text/plain", content: "t" }],
    });
    expect(sent!.mail!.headers).toEqual({
      "X-Own": "1",
      "X-Agent-Name": "writer",
      "X-Agent-ID": "w 1",
      "X-Agent-Sig": expect.stringMatching(/=$/),
      "X-Agent-Sig-Ts": expect.stringMatching(/^\d+$/),
    });
    const told = { from: "me@example.com", to: "you@example.org", subject: "s" };
    expect(events).toContainEqual(["email:send", told]);
  });

  test("throws without a binding, and calls a custom binding with the signed headers", async () => {
    await using t = await testAgents({ module });
    const writer = t.agent(Writer, "w");
    await expect(writer.writeWithout()).rejects.toThrow(/sendEmail: the binding is missing/);
    const [sent, seen] = (await writer.writeByOwn()) as [unknown, Array<Record<string, unknown>>];
    expect(sent).toEqual({ messageId: "own 1" });
    const headers = { "X-Agent-ID": "w", "In-Reply-To": "<first@x>" };
    expect(seen[0]).toMatchObject({ to: "you@example.org", headers });
    expect(seen[0]).not.toHaveProperty("inReplyTo");
    expect(t.sends()).toHaveLength(0);
  });

  test("sends no mail of a turn that is not stored", async () => {
    await using t = await testAgents({ module });
    await t
      .agent(Writer, "w")
      .writeAndAbort()
      .catch(() => undefined);
    await t.settled();
    expect(t.sends()).toHaveLength(0);
  });

  test("retries with the same id and bytes; what the relay refuses is dead at once, and can be redriven", async () => {
    let status = 451;
    await using t = await testAgents({ module, outgoing: () => new Response(null, { status }) });
    const writer = t.agent(Writer, "w");
    await writer.write({ retry: { maxAttempts: 3 } });
    await t.settled();
    expect(t.sends()).toHaveLength(3);
    expect(new Set(t.sends().map(({ body }) => body)).size).toBe(1);
    expect(await t.deadLetters()).toHaveLength(1);
    status = 550;
    await writer.write();
    await t.settled();
    expect(t.sends()).toHaveLength(4);
    expect(await writer.lastErrors()).toEqual([
      expect.stringContaining("was not sent"),
      expect.stringContaining("was refused"),
    ]);
    status = 250;
    const [letter] = await t.deadLetters();
    await t.redrive(letter!);
    expect(t.sends()).toHaveLength(5);
    expect(t.sends()[4]!.body).toBe(t.sends()[0]!.body);
  });

  test("sends again only to the recipients whom the relay asked to try later; so does a redrive", async () => {
    await using t = await testAgents({ module });
    const sent: OutgoingMail[] = [];
    let accepts = false;
    vi.spyOn(t["parts"].outgoing.relay, "send").mockImplementation(async (mail) => {
      sent.push(mail);
      const all = mail.envelope?.to ?? mail.to.map(({ address }) => address);
      const deferred = accepts ? [] : all.filter((address) => address.startsWith("grey"));
      if (deferred.length === all.length) return { _tag: "Failed", message: "greylisted" };
      const refused = all.filter((address) => address.startsWith("gone"));
      return { _tag: "Sent", refused, deferred };
    });
    const writer = t.agent(Writer, "w");
    const to = ["ok@example.org", "grey@example.org", "gone@example.org"];
    await writer.write({ to, retry: { maxAttempts: 3 } });
    await t.settled();
    const [first, ...further] = sent;
    expect(first!.envelope).toBeUndefined();
    const rest = { ...first, envelope: { from: "me@example.com", to: ["grey@example.org"] } };
    expect(further).toEqual([rest, rest]);
    expect(await writer.lastErrors()).toEqual([expect.stringContaining("was not sent")]);
    accepts = true;
    const [letter] = await t.deadLetters();
    await t.redrive(letter!);
    expect(sent.slice(3)).toEqual([rest]);
    expect(await t.deadLetters()).toHaveLength(0);
  });

  test("a host that takes over sends to the recipients that are left", async () => {
    await using t = await testAgents({ module });
    const sent: Array<ReadonlyArray<string>> = [];
    let lost: Promise<unknown> | undefined;
    vi.spyOn(t["parts"].outgoing.relay, "send").mockImplementation(async ({ envelope, to }) => {
      const all = envelope?.to ?? to.map(({ address }) => address);
      sent.push(all);
      if (sent.length > 1) return { _tag: "Sent", refused: [], deferred: [] };
      lost = t.crashAt("after commit", Writer, "w");
      return { _tag: "Sent", refused: [], deferred: ["grey@example.org"] };
    });
    await t.agent(Writer, "w").write({ to: ["ok@example.org", "grey@example.org"] });
    await pollUntil("the first attempt", () => lost !== undefined || { done: false, saw: sent });
    await lost;
    await t.revive();
    await t.settled();
    expect(sent).toEqual([["ok@example.org", "grey@example.org"], ["grey@example.org"]]);
  });

  test("sends two mails that share the caller's Message-ID as two mails", async () => {
    await using t = await testAgents({ module });
    const headers = { "Message-ID": "<own@example.com>" };
    await t.agent(Writer, "w").writeTwo({ headers });
    await t.settled();
    expect(t.sends().map(({ mail }) => mail!.id)).toEqual([
      "<own@example.com>",
      "<own@example.com>",
    ]);
  });

  test("sends from the next host when the first is lost", async () => {
    await using t = await testAgents({ module });
    const lost = t.crashAt("after commit", Writer, "w");
    const call = t.agent(Writer, "w").write();
    call.catch(() => undefined);
    await lost;
    await t.revive();
    await t.settled();
    expect(t.sends().length).toBeGreaterThanOrEqual(1);
    expect(new Set(t.sends().map(({ mail }) => mail!.id)).size).toBe(t.sends().length);
  });

  test.each([
    [
      "a subject of two lines",
      { subject: "a\r\nBcc: x@example.org" },
      /subject contains a line break/,
    ],
    ["a name of two lines", { from: { address: "a@example.com", name: "A\nB" } }, /line break/],
    ["nobody", { to: [] }, /at least one/],
    ["what is no address", { to: "nobody" }, /not a mail address/],
    ["no content", { text: null }, /text, html/],
    [
      "a header of its own",
      { headers: { "Content-Type": "x" } },
      /generated from the message's fields/,
    ],
    [
      "a crowd",
      { to: Array.from({ length: 101 }, (_, i) => `${i}@example.org`) },
      /101 recipients/,
    ],
  ])("refuses %s", async (_what, given, why) => {
    await using t = await testAgents({ module });
    await expect(t.agent(Writer, "w").write(given as never)).rejects.toThrow(why);
    await t.settled();
    expect(t.sends()).toHaveLength(0);
  });
});

describe("an address", () => {
  const read = (text: string): unknown => readAddress(text, "to", "sendEmail");

  test.each([
    ["a@b.example", { address: "a@b.example" }],
    ["<a@b.example>", { address: "a@b.example" }],
    [" Ann B. <a@b.example> ", { address: "a@b.example", name: "Ann B." }],
    ['"B, Ann <x>" <a@b.example>', { address: "a@b.example", name: "B, Ann <x>" }],
    ['"" <a@b.example>', { address: "a@b.example" }],
  ])("%s is read with its name", (text, address) => {
    expect(read(text)).toEqual(address);
  });

  test.each([
    "<a@b.example",
    "Ann <x> <a@b.example>",
    'Ann "B" <a@b.example>',
    "<a@b.example>>",
    "<a@b.example> Ann",
  ])("is not %s", (text) => {
    expect(() => read(text)).toThrow("not a mail address");
  });

  // By a regular expression with three repetitions of blanks, it is 15 s.
  test("of blanks is not an address", { timeout: 10_000 }, () => {
    expect(() => read(" ".repeat(3_600))).toThrow("not a mail address");
  });
});

describe("replyToEmail", () => {
  test("replies in the thread, each reply under its own id, derived from the input", async () => {
    reply = {};
    await using t = await testAgents({ module });
    await t.email({ ...MAIL, headers: { "Message-ID": "<1@example.org>" } });
    await t.settled();
    const mails = t.sends().map(({ mail }) => mail!);
    expect(mails[0]).toMatchObject({
      from: { address: "r@example.com", name: "R" },
      to: [{ address: "ann@example.org" }],
      subject: "Re: Hi",
      inReplyTo: "<1@example.org>",
      references: ["<1@example.org>"],
      headers: { "Auto-Submitted": "auto-replied", "X-Agent-Name": "replier", "X-Agent-ID": "one" },
      parts: [{ contentType: "text/plain", content: "words\n" }],
    });
    expect(mails[0]!.headers).not.toHaveProperty("X-Agent-Sig");
    expect(mails.map(({ id }) => id)).toEqual([
      expect.stringMatching(/^<one\.[0-9a-f]{32}\.1@example\.com>$/),
      mails[0]!.id.replace(".1@", ".2@"),
    ]);
  });

  test("shows a missing subject as null; the caller's headers and subject win", async () => {
    await using t = await testAgents({ module });
    reply = {};
    const { subject: _none, ...bare } = MAIL;
    await t.email(bare);
    reply = {
      subject: "Own",
      contentType: "text/html",
      headers: { "x-agent-id": "other", "Auto-Submitted": "no", "Reply-To": "z@example.com" },
    };
    await t.email(MAIL);
    await t.settled();
    const [first, , third] = t.sends().map(({ mail }) => mail!);
    expect(first!.subject).toBe("Re: null");
    expect(third).toMatchObject({
      subject: "Own",
      replyTo: { address: "z@example.com" },
      headers: { "x-agent-id": "other", "Auto-Submitted": "no" },
      parts: [{ contentType: "text/html" }],
    });
  });

  test("requires a secret, or an explicit null, to reply to a mail that came by a signed reply", async () => {
    await using t = await testAgents({ module });
    reply = { secret };
    await t.email(MAIL);
    await t.settled();
    const { headers } = t.sends()[0]!.mail!;
    const { "Auto-Submitted": _machine, ...kept } = headers;
    expect(Object.keys(kept)).toHaveLength(4);
    reply = {};
    await t.email({ ...MAIL, text: "back", headers: kept });
    await t.settled();
    expect(t.sends()).toHaveLength(2);
    const [dead] = await t.deadLetters();
    expect(dead!.reason).toMatch(/createSecureReplyEmailResolver/);
    reply = { secret: null };
    await t.redrive(dead!);
    expect(t.sends()).toHaveLength(4);
    expect(t.sends()[2]!.mail!.headers).not.toHaveProperty("X-Agent-Sig");
    expect(t.agent(Replier, "one").state).toBeDefined();
  });

  test.each([
    [{ headers: { "Auto-Submitted": "auto-generated" } }],
    [{ headers: { Precedence: "list" } }],
    [{ headers: { "List-Unsubscribe": "<https://news.example/off>" } }],
    [{ headers: { "list-id": "News <news.example>" } }],
    [{ from: "" }],
  ])("never replies to an automatic message: %j", async (given) => {
    reply = {};
    await using t = await testAgents({ module });
    await t.email({ ...MAIL, headers: {}, ...given });
    await t.settled();
    expect(t.sends()).toHaveLength(0);
    expect(await t.deadLetters()).toHaveLength(0);
    expect(t.logs.some(({ message }) => message === "a mail is not answered")).toBe(true);
  });

  test("rejects a name that would inject a header", async () => {
    reply = { fromName: "R\r\nBcc: all@example.org" };
    await using t = await testAgents({ module });
    await t.email(MAIL);
    await t.settled();
    expect(t.sends()).toHaveLength(0);
    expect((await t.deadLetters())[0]!.reason).toMatch(/line break/);
  });

  test("logs incoming mail of an agent without onEmail", async () => {
    class Deaf extends Agent {}
    const email = async (message: unknown, env: unknown) =>
      routeAgentEmail(message as AgentEmail, env, {
        resolver: createCatchAllEmailResolver("deaf", "d"),
      });
    await using t = await testAgents({ agents: [Deaf], email });
    expect(await t.email(MAIL)).toMatchObject({ code: 250 });
    await t.settled();
    expect(t.logs.some(({ message }) => message.includes("has no onEmail"))).toBe(true);
    expect(await t.deadLetters()).toHaveLength(0);
  });
});
