/** The relay adapter against a real SMTP server: the bytes of a message, and its recipients. */
import { createServer } from "node:net";
import { Context, Effect, Exit, Layer, Scope } from "effect";
import PostalMime from "postal-mime";
import { afterEach, expect, test } from "vitest";
import { composeMail, type EmailContent } from "../../core/mail/composeMail.ts";
import { MailTransport, type OutgoingMail } from "../../core/mail/MailTransport.ts";
import { smtpRelayLayer } from "../../services/smtp/SmtpRelay.ts";
import { Sink } from "./kit.ts";

const open: Array<() => Promise<void>> = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

/** A relay, and the transport that sends to it. */
async function relay() {
  const sink = await Sink.open();
  open.push(() => sink.close());
  return { sink, transport: await transportTo(sink.url) };
}

async function transportTo(url: string) {
  const scope = Effect.runSync(Scope.make());
  open.push(() => Effect.runPromise(Scope.close(scope, Exit.void)));
  const built = Layer.build(smtpRelayLayer(url)).pipe(Scope.provide(scope));
  return Context.get(await Effect.runPromise(built), MailTransport);
}

const mailOf = (id: string, content: Partial<EmailContent> = {}): OutgoingMail => ({
  ...composeMail(
    { from: "me@example.com", to: "you@example.org", subject: "s", text: "t", ...content },
    "test",
  ),
  id: `<${id}@support.example-company.com>`,
  dateMs: 0,
});

test("recipients refused for good and recipients to try later are told apart", async () => {
  const { sink, transport } = await relay();
  const codes: Readonly<Record<string, number>> = { "grey@x.org": 451, "gone@x.org": 550 };
  sink.refuseRecipient = (address) => codes[address];
  const send = (...to: string[]) => transport.send(mailOf("Desk.aaaaaaaa.1", { to }));
  expect(await send("ok@x.org", "grey@x.org", "gone@x.org")).toEqual({
    _tag: "Sent",
    refused: ["gone@x.org"],
    deferred: ["grey@x.org"],
  });
  expect((await send("gone@x.org", "grey@x.org"))._tag).toBe("Failed");
  expect((await send("gone@x.org"))._tag).toBe("Refused");
});

/** What the relay answers to each command; others are answered 250. */
async function answering(answers: Readonly<Record<string, string>>) {
  const server = createServer((socket) => {
    const answer = (command: string): void =>
      void socket.write(
        `${answers[command] ?? (command === "greeting" ? "220 hi" : "250 ok")}\r\n`,
      );
    answer("greeting");
    socket.on("error", () => undefined);
    socket.on("data", (data) => answer(String(data).slice(0, 4).toUpperCase()));
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  open.push(() => new Promise((closed) => void server.close(() => closed())));
  const { port } = server.address() as { readonly port: number };
  return transportTo(`smtp://127.0.0.1:${port}`);
}

test.each([
  ["the connection", { greeting: "554 5.7.1 not you" }, "Failed"],
  ["its login", { MAIL: "530 5.7.0 Authentication required" }, "Failed"],
  ["the sender of the mail", { MAIL: "550 5.1.8 no such sender" }, "Refused"],
])("a refusal of %s is final only if it concerns the mail", async (_what, answers, tag) => {
  const transport = await answering(answers);
  expect((await transport.send(mailOf("Desk.aaaaaaaa.1")))._tag).toBe(tag);
});

test("with requireTLS, a relay that does not encrypt receives no mail", async () => {
  const { sink, transport } = await relay();
  const strict = await transportTo(`${sink.url}?requireTLS=true`);
  expect((await strict.send(mailOf("Desk.aaaaaaaa.1")))._tag).toBe("Failed");
  expect(sink.mails).toHaveLength(0);
  expect((await transport.send(mailOf("Desk.aaaaaaaa.1")))._tag).toBe("Sent");
});

const boundaryIn = (raw: Buffer): string => /boundary="([^"]+)"/.exec(raw.toString())![1]!;

test("a text that repeats the boundary of an earlier mail adds no part to a later one", async () => {
  const { sink, transport } = await relay();
  await transport.send(mailOf("Desk.aaaaaaaa.1", { html: "<p>t</p>" }));
  const known = boundaryIn(sink.mails[0]!.raw);
  const evil = `--${known}\r\nContent-Type: text/html\r\n\r\n<h1>evil</h1>\r\n--${known}--\r\n`;
  await transport.send(mailOf("Desk.bbbbbbbb.1", { text: `Hi\r\n${evil}`, html: "<p>safe</p>" }));
  const { html, text } = await PostalMime.parse(sink.mails[1]!.raw);
  expect(html?.trim()).toBe("<p>safe</p>");
  expect(text).toContain("<h1>evil</h1>");
});

test("boundaries depend on the contents, and are the same when a mail is sent again", async () => {
  const { sink, transport } = await relay();
  for (const text of ["one", "one", "two"])
    await transport.send(mailOf("Desk.aaaaaaaa.1", { text, html: "<p>t</p>" }));
  const [first, again, other] = sink.mails.map(({ raw }) => raw);
  expect(again!.equals(first!)).toBe(true);
  expect(boundaryIn(other!)).not.toBe(boundaryIn(first!));
});
