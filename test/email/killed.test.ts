/**
 * Between SMTP's 250 and `onEmail`: no host at all, and one that is killed in the middle. In real
 * processes.
 */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { AgentsProcess } from "../kit/AgentsProcess.ts";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { deliver, Sink } from "./kit.ts";

const MODULE = fileURLToPath(new URL("./deadlyModule.ts", import.meta.url));
const closes: Array<() => unknown> = [];
afterEach(async () => {
  for (const close of closes.splice(0).toReversed()) await close();
});

test("an accepted mail is answered once, whatever hosts are killed", async () => {
  const nats = await startNats();
  closes.push(() => nats.stop());
  const sink = await Sink.open();
  closes.push(() => sink.close());
  const folder = tempFolder("killed");
  closes.push(() => folder.remove());
  const env = { MARK: join(folder.path, "mark"), SMTP_URL: sink.url };
  const run = async (role: string, ...more: string[]) => {
    const data = join(folder.path, role);
    const args = [role, MODULE, "--nats", nats.url, "--data", data, "--shards", "2", ...more];
    const started = await AgentsProcess.start({ args, env });
    closes.push(() => started.kill());
    return started;
  };

  const mail = await run("mail", "--smtp-port", "0", "--hostname", "127.0.0.1");
  const { smtp } = mail.lines.find(({ message }) => message === "mail serves")!;
  const port = Number(String(smtp).split(":")[1]);
  const letter = { from: "ann@example.org", to: "mortal+m@example.com", subject: "s", text: "t" };
  expect((await deliver(port, letter)).code).toBe(250);

  const first = await run("host", "--lease-ttl", "1000");
  await pollUntil("the host's worker is killed by the mail", () =>
    first.lines.some(({ message }) => message === "worker ended"),
  );
  const [answer] = await pollUntil(
    "the answer",
    () => sink.mails.length > 0 && { done: true, value: sink.mails },
  );
  expect(answer!.raw.toString()).toContain("number 1\r\n");

  // The mail process keeps running, and a second one finds the agent as it was left.
  expect((await deliver(port, { ...letter, text: "again" })).code).toBe(250);
  // A mail that was sent before its host knew is sent again with the same Message-ID, by which
  // receivers ignore it.
  const distinct = () => new Map(sink.mails.map(({ raw }) => [messageId(raw), raw.toString()]));
  await pollUntil(
    "a second answer",
    () => distinct().size > 1 || { done: false, saw: sink.mails.length },
  );
  expect([...distinct().values()].map((text) => /number \d+/.exec(text)?.[0])).toEqual([
    "number 1",
    "number 2",
  ]);
});

const messageId = (raw: Buffer): string =>
  /^Message-ID: (.*)\r$/m.exec(raw.toString())?.[1] ?? "none";
