/** The log of mail: what `agents dev` does not send, and mail that becomes a dead letter. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { Agent, type AgentEmail } from "agents";
import { emailRoute } from "agents/email";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { deliver, start } from "./kit.ts";

class Clerk extends Agent {
  static override options = { retry: { maxAttempts: 2, baseDelayMs: 1, maxDelayMs: 2 } };
  override async onEmail(email: AgentEmail): Promise<void> {
    if (this.name === "broken") throw new Error("a defect of the module");
    await this.replyToEmail(email, { fromName: "Clerk", body: "Thank you." });
  }
}
const module = { Clerk, default: { email: [emailRoute("*@example.com", { agent: Clerk })] } };

let nats: TestNats;
let system: Awaited<ReturnType<typeof start>>;
beforeAll(async () => {
  nats = await startNats();
  system = await start({ role: "dev", nats: nats.url, namespace: "logged", module });
});
afterAll(async () => {
  await system?.stop();
  await nats?.stop();
});

/** Delivers a mail to the agent, and resolves to the first line of the log with the text. */
async function lineAfterMailTo(name: string, text: string): Promise<string> {
  const mail = { from: "ann@example.org", to: `${name}@example.com`, subject: "hi", text: "?" };
  expect(await deliver(system.smtpPort, mail)).toMatchObject({ code: 250 });
  return pollUntil(`a line with ${text}`, () => {
    const lines = system.log.lines.map((line) => JSON.stringify(line));
    const found = lines.find((line) => line.includes(text));
    return found === undefined ? { done: false, saw: lines } : { done: true, value: found };
  });
}

test("`agents dev` without a relay logs what an agent sends, and counts it as sent", async () => {
  const line = await lineAfterMailTo("desk", "a mail was not sent, because no relay is configured");
  expect(line).toContain('"to":"ann@example.org"');
  expect(system.log.lines.filter(({ level }) => level === "error")).toEqual([]);
});

test("a mail whose attempts are spent is logged as dead, and not with an HTTP status", async () => {
  expect(await lineAfterMailTo("broken", '"level":"error","message":"mail"')).toContain(
    '"status":"dead"',
  );
});
