/**
 * Mails that ask for a reminder: the answer at once, the reminder when it is due, through a crash.
 */
import { beforeAll, expect, it } from "vitest";
import { parseEmail } from "agents/email";
import { testAgents } from "agents/testing";
import * as server from "./server.ts";

// The parser is loaded on first use, which takes real time: not in the middle of virtual time.
beforeAll(async () => void (await parseEmail({ getRaw: async () => new Uint8Array() })));

const mail = (subject: string) => ({
  from: "ann@example.org",
  to: "remind@example.com",
  subject,
  text: "",
});

it("a mail is answered, and the reminder arrives when it is due, not before", async () => {
  await using test = await testAgents({ module: server });
  expect(await test.email(mail("in 2 hours: call Bob"))).toMatchObject({ code: 250 });
  await test.settled();
  expect(test.sends()).toHaveLength(1);
  await test.advance("1h 59m");
  expect(test.sends()).toHaveLength(1);
  await test.crash();
  await test.revive();
  await test.settled();
  await test.advance("2m");
  expect(test.sends().map(({ mail: sent }) => sent?.subject)).toEqual([
    "Re: in 2 hours: call Bob",
    "Reminder: call Bob",
  ]);
});

it("what is no reminder is answered with how to write one", async () => {
  await using test = await testAgents({ module: server });
  await test.email(mail("hello"));
  await test.settled();
  expect(test.sends()).toHaveLength(1);
  expect(await test.agent(server.Reminders, "ann@example.org").schedules()).toEqual([]);
});

it("a person is one agent, however the address is written; an answer has a subject", async () => {
  await using test = await testAgents({ module: server });
  await test.email({ ...mail("in 2 hours: call Bob"), from: "Ann@Example.org" });
  await test.email({ from: "ann@example.org", to: "remind@example.com", text: "in 1 day: tea" });
  await test.settled();
  expect(await test.agent(server.Reminders, "ann@example.org").schedules()).toHaveLength(2);
  expect(test.sends().map(({ mail: sent }) => sent?.subject)).toEqual([
    "Re: in 2 hours: call Bob",
    "Re:",
  ]);
});

it.each([
  ["in 1 minute: tea", { seconds: 60, text: "tea" }],
  ["In 3 days renew it", { seconds: 259_200, text: "renew it" }],
  ["in 0 hours: now", undefined],
  ["tomorrow: x", undefined],
])("%s", (line, expected) => {
  expect(server.readReminder(line)).toEqual(expected);
});
