/**
 * The path of a new user: from the first line of `agents dev` to the webhook that changed a field,
 * and to what a corrected handler would have done. For `npm run docs:screens`, it writes the
 * screenshots of the docs.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { sign } from "../../services/webhooks/sign.ts";
import { launchChromium } from "../kit/chromium.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { pressAndConfirm } from "./openPage.ts";
import { shootScreen } from "./shootScreen.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const SECRET = "a secret for this path";
const folder = tempFolder("console-path");
const file = join(folder.path, "server.js");

/** A shop's orders: a refund should lower the total. */
const moduleText = (refund: string): string => `
import { Agent } from "agents";
import { body, github, webhook } from "agents/webhooks";
export class ShopAgent extends Agent {
  initialState = { total: 0 };
  async onRequest(request) {
    const { action, amount } = await request.json();
    const sign = action === "refund" ? ${refund} : 1;
    this.setState({ total: this.state.total + sign * amount });
    return new Response("OK");
  }
}
export default {
  webhooks: [
    webhook("/webhooks/github", { agent: ShopAgent, verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }), entity: body("shop") }),
  ],
};
`;

let dev: ChildProcess;
let browser: Browser;
let out = "";
let err = "";

beforeAll(async () => {
  mkdirSync(join(folder.path, "node_modules"));
  symlinkSync(ROOT, join(folder.path, "node_modules/agents"));
  writeFileSync(file, moduleText("1"));
  dev = spawn(
    process.execPath,
    [join(ROOT, "dist/services/cli/main.js"), "dev", "server.js", "--port", "0", "--admin-port", "0", "--console-port", "0"], // prettier-ignore
    { cwd: folder.path, env: { ...process.env, GITHUB_WEBHOOK_SECRET: SECRET }, stdio: ["ignore", "pipe", "pipe"] }, // prettier-ignore
  );
  dev.stdout!.on("data", (chunk: Buffer) => (out += String(chunk)));
  dev.stderr!.on("data", (chunk: Buffer) => (err += String(chunk)));
  browser = await launchChromium();
});
afterAll(async () => {
  await browser?.close();
  const ended = new Promise((resolve) => dev?.once("close", resolve));
  dev?.kill("SIGTERM");
  await ended;
  folder.remove();
});

const SIZE = { width: 1_000, height: 620 };
const shoot = (page: Page, name: string): Promise<void> =>
  shootScreen(page, name, [folder.path, "/app"]);

const printed = (pattern: RegExp): Promise<string> =>
  pollUntil(`agents dev prints ${pattern}`, () => {
    const found = pattern.exec(out)?.[1];
    return found === undefined ? { done: false, saw: out + err } : { done: true, value: found };
  });

it("the console finds which webhook changed a field, and what a corrected handler would have done", async () => {
  const hooks = await printed(/POST (http\S+)/);
  const consoleUrl = await printed(/console\s+(http\S+#token=\S+)/);
  for (const [n, [action, amount]] of [
    ["order", 30],
    ["refund", 10],
    ["order", 5],
  ].entries()) {
    const body = JSON.stringify({ shop: "corner", action, amount });
    const headers = sign.github(body, SECRET, { event: "sale", id: `d${n}` });
    const answer = await fetch(hooks, { method: "POST", headers: { ...headers, "content-type": "application/json" }, body }); // prettier-ignore
    expect(answer.status).toBe(200);
  }

  const page = await browser.newPage({ viewport: SIZE });
  await page.goto(consoleUrl);
  await page.getByRole("region", { name: "Cost by class" }).waitFor();
  await shoot(page, "overview");
  await page.getByRole("link", { name: "Agents", exact: true }).click();
  await page.getByRole("link", { name: "ShopAgent/corner" }).click();
  await page.getByRole("link", { name: "State", exact: true }).click();
  // The total is too high: who wrote it?
  await page.getByRole("link", { name: "state.total" }).click();
  const writes = page.getByRole("table").getByRole("row");
  await writes.nth(3).waitFor();
  const cells = await writes.nth(2).getByRole("cell").allInnerTexts();
  expect(cells.slice(-2)).toEqual(["30", "40"]);
  await shoot(page, "why");
  await writes.nth(2).getByRole("cell").nth(3).getByRole("link").click();
  // The delivery that did it is a refund.
  await page.getByText('"action": "refund"').waitFor();
  await page.getByRole("link", { name: /and its effects/ }).click();
  await page.getByRole("link", { name: "state.total" }).waitFor();

  writeFileSync(file, moduleText("-1"));
  await page.getByRole("button", { name: /^Run on / }).click();
  const again = page.getByRole("region", { name: "Re-run" });
  await again.getByText("differs").waitFor();
  expect(await again.innerText()).toContain("state.total: 40 -> 20");
  await again.scrollIntoViewIfNeeded();
  await shoot(page, "rerun");

  // The last order once more, on a fork of the agent as it is now.
  await page.getByRole("link", { name: "Deliveries", exact: true }).click();
  const last = page.getByRole("region", { name: "Deliveries" }).getByRole("row").nth(1);
  await last.getByRole("cell").last().getByRole("link").click();
  await pressAndConfirm(page, "Run on a fork on server.js");
  const fork = page.getByRole("region", { name: "On a fork first" });
  await fork.getByText("0 of 1 input failed.").waitFor();
  expect(await fork.innerText()).toContain("state.total: 45 -> 50");
});
