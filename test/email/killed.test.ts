/** Between SMTP's 250 and `onEmail`: no host, and one killed midway. In real processes. */
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { deliver, Sink } from "./kit.ts";

const MODULE = fileURLToPath(new URL("./deadlyModule.ts", import.meta.url));
const closes: Array<() => unknown> = [];
afterEach(async () => {
  for (const close of closes.splice(0).toReversed()) await close();
});

test("an accepted mail is answered once, whatever hosts are killed", async () => {
  const sink = await Sink.open();
  closes.push(() => sink.close());
  const folder = tempFolder("killed");
  closes.push(() => folder.remove());
  const installation = await Installation.start({
    shards: 2,
    leaseTtlMs: 1_000,
    gateway: false,
    module: MODULE,
    env: { MARK: join(folder.path, "mark"), SMTP_URL: sink.url },
  });
  closes.push(() => installation.kill());
  const where = ["--smtp-port", "0", "--hostname", "127.0.0.1"];
  const data = installation.pathOf("mail");
  const mail = await installation.startProcess("mail", { args: [...where, "--data", data] });
  const { smtp } = mail.lines.find(({ message }) => message === "mail serves")!;
  const port = Number(String(smtp).split(":")[1]);
  const letter = { from: "ann@example.org", to: "mortal+m@example.com", subject: "s", text: "t" };
  expect((await deliver(port, letter)).code).toBe(250);

  const first = await installation.startHost("host");
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
