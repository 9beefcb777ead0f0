/** What messages are composed of: envelopes, subjects and headers of mails that answer others. */
import { expect, it } from "vitest";
import { ReceivedEmail } from "../../core/mail/AgentEmail.ts";
import { checkAgentSignature, signAgent } from "../../core/mail/agentSignature.ts";
import { whyNoReply } from "../../core/mail/autoReply.ts";
import { composeMail } from "../../core/mail/composeMail.ts";
import { composeForward, composeReply } from "../../core/mail/composeReply.ts";

const NONE = () => Promise.resolve();

/** A mail with these lines as its head. */
const received = (from: string, ...head: ReadonlyArray<string>) =>
  new ReceivedEmail(
    {
      from,
      to: "help@example.com",
      raw: new TextEncoder().encode(`${head.join("\r\n")}\r\n\r\nwords\r\n`),
      secureRouted: false,
    },
    { reject: NONE, forward: NONE, reply: NONE },
  );

it("a forwarded mail bounces to the address that received it", async () => {
  const { envelope } = await composeForward(received("ann@example.org"), "bob@x.org", undefined);
  expect(envelope).toEqual({ from: "help@example.com", to: ["bob@x.org"] });
});

it("a forwarded bounce has no sender, so that it does not bounce again", async () => {
  const { envelope } = await composeForward(received(""), "bob@x.org", undefined);
  expect(envelope).toEqual({ from: "", to: ["bob@x.org"] });
});

it("added headers may be a plain object, and only X- headers", async () => {
  const add = (headers: object) =>
    composeForward(received("ann@example.org"), "bob@x.org", headers as Headers);
  const { raw } = await add({ "X-A": "1" });
  expect(atob(raw!)).toMatch(/^x-a: 1\r\n/);
  await expect(add({ "Y-A": "1" })).rejects.toThrow("only X- headers");
});

const subjectOf = (subject: string | undefined, ...head: ReadonlyArray<string>) =>
  composeReply(
    received("ann@example.org", ...head),
    { fromName: "R", body: "b", ...(subject === undefined ? {} : { subject }) },
    {},
  ).subject;

it("a reply repeats a subject in UTF-8; an empty one of its own counts as none", () => {
  expect(subjectOf(undefined, "Subject: Grüße aus Köln")).toBe("Re: Grüße aus Köln");
  expect(subjectOf(undefined, "Subject: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=")).toBe(
    "Re: =?utf-8?Q?Gr=C3=BC=C3=9Fe?=",
  );
  expect(subjectOf("", "Subject: Hi")).toBe("Re: Hi");
  expect(subjectOf("Own", "Subject: Hi")).toBe("Own");
});

it("signed headers in UTF-8 are valid", async () => {
  const signed = await signAgent("k", "desk", "köln", 1_000);
  const head = Object.entries(signed).map(([name, value]) => `${name}: ${value}`);
  const { headers } = received("ann@example.org", ...head);
  expect(await checkAgentSignature("k", headers, { nowSeconds: 1_001, maxAge: 60 })).toMatchObject({
    _tag: "Valid",
    agentId: "köln",
  });
});

it("attachments are refused, and do not vanish", () => {
  const mail = { from: "a@b.c", to: "d@e.f", subject: "s", text: "t" };
  const attachments = [{ filename: "a.pdf", content: "x" }];
  expect(() => composeMail({ ...mail, attachments } as never)).toThrow("attachments can't be sent");
  expect(composeMail({ ...mail, attachments: [] } as never).subject).toBe("s");
});

it.each([
  ["a bounce", "", "Subject: x"],
  ["list mail", "ann@example.org", "List-Id: <l.example.org>"],
  ["a report", "postmaster@example.org", "Content-Type: multipart/report; report-type=x"],
  ["a mail that was delivered without a sender", "ann@example.org", "Return-Path: <>"],
  ["a mail of a mailer", "MAILER-DAEMON@example.org", "Subject: x"],
])("%s is not answered", (_what, from, head) => {
  expect(whyNoReply(received(from, head))).toBeDefined();
  expect(whyNoReply(received("ann@example.org", "Content-Type: multipart/mixed"))).toBeUndefined();
});
