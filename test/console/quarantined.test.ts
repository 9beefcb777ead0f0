/** A quarantined agent in the console, in Chromium: its inputs run on a fork before a release. */
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { launchChromium } from "../kit/chromium.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { faultsOf } from "./accessible.ts";
import { openPage, pressAndConfirm } from "./openPage.ts";
import { serveConsole, type Served } from "./serveConsole.ts";

const MODULE = fileURLToPath(new URL("./noteModule.ts", import.meta.url));
const TOKEN = "a token for these tests";
const HELD = agentId("NoteAgent", "kept apart");

let installation: Installation;
let served: Served;
let browser: Browser;
/** When the quarantine ends. */
let until: string;
beforeAll(async () => {
  installation = await Installation.start({ shards: 1, module: MODULE, gateway: false });
  const nowMs = Date.now();
  until = new Date(nowMs + 3_600_000).toISOString();
  const mark = { kind: "kills", reason: "its turns have ended 3 processes", host: "another", sinceMs: nowMs, untilMs: nowMs + 3_600_000, times: 1 } as const; // prettier-ignore
  await installation.ports.quarantines.put(HELD, mark);
  await (await installation.startHost("host")).ready();
  const args = ["--data", installation.pathOf("host"), "--rerun", "test/console/noteModule.ts"];
  served = await serveConsole(installation.nats.url, args, { AGENTS_CONSOLE_TOKEN: TOKEN });
  browser = await launchChromium();
});
afterAll(async () => {
  await browser?.close();
  served?.process.kill();
  await installation?.stop();
});

it("a quarantined agent is listed with its end; what waits for it runs on a fork, and the agent is released after it", async () => {
  const { journal, quarantines } = installation.ports;
  const head = { key: "hook:held", provider: "github", type: "push", url: "http://hooks.test/" };
  await installation.publish(HELD, head, "{}");
  const place = { url: served.url, token: TOKEN };
  const { page, broken } = await openPage(browser, place);
  const row = page.getByRole("row").filter({ hasText: "NoteAgent/kept apart" });
  await row.locator(`time[datetime="${until}"]`).waitFor();
  await row.getByRole("button", { name: "On a fork first" }).click();
  const section = page.getByRole("region", { name: "On a fork first" });
  await pressAndConfirm(section, /^Run on a fork/);
  await section.getByText("0 of 1 input failed.").waitFor();
  expect(await section.getByRole("article").allInnerTexts()).toEqual([
    expect.stringMatching(/^done hook:held on a fork of NoteAgent\/kept apart/m),
  ]);
  expect(await journal.last(HELD)).toBeUndefined();
  expect(await faultsOf(browser, place, [""])).toEqual([]);
  await pressAndConfirm(section, "Release after the fork");
  await row.waitFor({ state: "detached" });
  await pollUntil("it has run", () => journal.last(HELD));
  const [marked] = await quarantines.list();
  expect(marked?.mark.untilMs ?? 0).toBeLessThanOrEqual(Date.now());
  expect(broken).toEqual([]);
  await page.close();
});
