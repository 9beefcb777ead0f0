/** Tabs of a real Chromium on one agent, over real processes that are killed. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { build, type Rollup } from "vite";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { launchChromium } from "../kit/chromium.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { isPortFree, pickPort } from "../../services/natsServer/pickPort.ts";
import { LEASE_TTL_MS_DEFAULT as leaseTtlMs } from "../../services/nats/setup/provision.ts";

const MODULE = fileURLToPath(new URL("./tabsModule.ts", import.meta.url));
const CLIENT = fileURLToPath(new URL("../../services/client/index.ts", import.meta.url));
const HOOK = fileURLToPath(new URL("./hookPage.ts", import.meta.url));

let installation: Installation;
let folder: ReturnType<typeof tempFolder>;
let browser: Browser;
let gateway: AgentsProcess;
let port: number;
let first: AgentsProcess;

const startGateway = (): Promise<AgentsProcess> =>
  installation.startProcess("gateway", { args: ["--port", String(port)] });

async function bundle(entry: string, name: string): Promise<void> {
  const output = (await build({
    logLevel: "silent",
    configFile: false,
    // React asks for it, and a library's build leaves it to the page.
    define: { "process.env.NODE_ENV": '"production"' },
    build: { write: false, lib: { entry, formats: ["es"] } },
  })) as Rollup.RollupOutput[];
  writeFileSync(join(folder.path, name), output[0]!.output[0].code);
}

beforeAll(async () => {
  folder = tempFolder("tabs");
  await bundle(CLIENT, "client.js");
  await bundle(HOOK, "hook.js");
  const env = {
    CLIENT_BUNDLE: join(folder.path, "client.js"),
    HOOK_BUNDLE: join(folder.path, "hook.js"),
  };
  installation = await Installation.start({
    shards: 64,
    leaseTtlMs,
    module: MODULE,
    gateway: false,
    env,
  });
  port = await pickPort();
  first = await installation.startHost("a");
  gateway = await startGateway();
  browser = await launchChromium();
});

afterAll(async () => {
  await browser?.close();
  await installation?.kill();
  folder?.remove();
});

async function openTab(path = ""): Promise<Page> {
  const page = await browser.newPage();
  await pollUntil("the page is served", async () => {
    const response = await page.goto(`http://127.0.0.1:${port}/${path}`).catch(() => null);
    return response?.ok() === true;
  });
  await page.waitForSelector("[data-ready=yes]", { state: "attached" });
  return page;
}

const textOf = (page: Page): Promise<string> => page.locator("#text").innerText();
const write = (page: Page, text: string): Promise<void> =>
  page.evaluate(`window.note.setState({ text: ${JSON.stringify(text)} })`);
const sees = (page: Page, text: string) =>
  pollUntil(`a tab shows "${text}"`, async () => {
    const saw = await textOf(page);
    return saw === text ? { done: true, value: saw } : { done: false, saw };
  });

describe("tabs of a real browser on one agent", () => {
  it("see each other's changes, across a killed host and a new gateway", async () => {
    const one = await openTab();
    const two = await openTab();
    await write(one, "from one");
    await sees(two, "from one");
    await write(two, "from two");
    await sees(one, "from two");

    await installation.startHost("b");
    await first.kill();
    await write(one, "after the host was killed");
    await sees(two, "after the host was killed");

    await gateway.kill();
    await pollUntil("the gateway's port is free", () => isPortFree(port));
    gateway = await startGateway();
    await two.waitForFunction("window.note.identified");
    await one.waitForFunction("window.note.identified");
    await write(two, "after the gateway came back");
    await sees(one, "after the gateway came back");
  });

  it("that are readonly see changes and can't make any", async () => {
    const writer = await openTab();
    const reader = await openTab("?readonly");
    await write(writer, "kept");
    await sees(reader, "kept");
    await write(reader, "forged");
    await pollUntil("the readonly tab is refused", async () => {
      const saw = await reader.locator("#error").innerText();
      return saw === "Connection is readonly" ? true : { done: false, saw };
    });
    expect(await textOf(writer)).toBe("kept");
    const third = await openTab();
    await sees(third, "kept");
  });

  it("with our hook show each other's changes", async () => {
    const [one, two, reader] = [
      await openTab("hook"),
      await openTab("hook"),
      await openTab("hook?readonly"),
    ];
    await write(one, "by a hook");
    for (const tab of [one, two, reader]) await sees(tab, "by a hook");
    await write(two, "by the other");
    await sees(one, "by the other");
    await write(reader, "forged");
    await write(one, "after it");
    for (const tab of [one, two, reader]) await sees(tab, "after it");
  });
});
