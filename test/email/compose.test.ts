/** What messages are composed of: envelopes, subjects and headers of mails that answer others. */
import { expect, it } from "vitest";
import { ReceivedEmail } from "../../core/mail/AgentEmail.ts";
import { composeForward } from "../../core/mail/composeReply.ts";

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
