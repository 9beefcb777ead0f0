/** The help desk: a mail opens a case, answers come home to it, strangers' forgeries do not. */
import { expect, test } from "vitest";
import { testAgents } from "agents/testing";
import * as server from "./server.ts";
import { CaseAgent } from "./server.ts";

const env = { EMAIL_SECRET: "for the test" };

test("a mail opens a case, which answers; the answer to that comes home by its signature", async () => {
  await using t = await testAgents({ module: server, env });
  const first = { from: "ann@example.org", to: "help@example.com", subject: "Prünter", text: "?" };
  expect(await t.email(first)).toMatchObject({ code: 250 });
  await t.settled();
  const [sent] = t.sends();
  const mail = sent!.mail!;
  expect(mail).toMatchObject({ to: [{ address: "ann@example.org" }] });
  const name = /\[case (\d+)\]/.exec(mail.subject)![1]!;
  const home = t.agent(CaseAgent, name);
  expect(await home.letters()).toMatchObject([{ sender: "ann@example.org", text: "?\n" }]);

  const answer = {
    ...first,
    subject: `Re: ${mail.subject}`,
    text: "thanks",
    headers: mail.headers,
  };
  delete (answer.headers as Record<string, string>)["Auto-Submitted"];
  await t.email(answer);
  await t.settled();
  expect(await home.letters()).toHaveLength(2);
  expect(t.sends()).toHaveLength(1);
});

test("an answer without its headers comes home by the address; a forged one does not open another's case", async () => {
  await using t = await testAgents({ module: server, env });
  const from = "ann@example.org";
  await t.email({ from, to: "help+42@example.com", text: "by address" });
  await t.settled();
  expect(await t.agent(CaseAgent, "42").letters()).toHaveLength(1);
  const forged = {
    "X-Agent-Name": "case-agent",
    "X-Agent-ID": "42",
    "X-Agent-Sig": "AA==",
    "X-Agent-Sig-Ts": "1",
  };
  expect(await t.email({ from, to: "sales@example.com", headers: forged })).toEqual({
    code: 550,
    message: "5.1.1 No such recipient here",
  });
  await t.settled();
  expect(await t.agent(CaseAgent, "42").letters()).toHaveLength(1);
});

test("two mails open two cases, also when somebody knows a Message-ID; one sent again opens none", async () => {
  await using t = await testAgents({ module: server, env });
  const mail = (from: string, id: string) => ({
    from: `${from}@example.org`,
    to: "help@example.com",
    text: "?",
    headers: { "Message-ID": `<${id}@example.org>` },
  });
  // A number of five digits, each from one byte of the hash, would be the same for these two.
  await t.email(mail("ann", "359"));
  await t.email(mail("bob", "513"));
  await t.email(mail("eve", "359"));
  await t.email(mail("ann", "359"));
  await t.settled();
  expect(t.sends()).toHaveLength(3);
});

test("mails without a Message-ID open cases of their own", async () => {
  await using t = await testAgents({ module: server, env });
  const raw = (text: string) => ({
    from: "ann@example.org",
    to: "help@example.com",
    raw: `Subject: no id\r\n\r\n${text}\r\n`,
  });
  await t.email(raw("one"));
  await t.email(raw("two"));
  await t.settled();
  expect(t.sends()).toHaveLength(2);
});
