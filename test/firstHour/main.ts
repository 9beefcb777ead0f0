/**
 * `npm run first-hour`: what a new user does in the first hour, from the packed tarball in an empty
 * folder. Prints how long each step took, and fails when a step fails, when anything printed a
 * warning, or when the first signed webhook took more than a minute to be answered.
 *
 * `--node <folder>` takes `node` and `npm` from there, `--tarball <file>` takes a packed one.
 */
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { chromium } from "playwright-core";
import { startNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { Folder, type Server } from "./Folder.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const CHROMIUM = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
/** From `init` to the first answered webhook, on a machine with a warm cache of npm's. */
const FIRST_WEBHOOK_MS_MAX = 60_000;

const { values } = parseArgs({
  options: { node: { type: "string" }, tarball: { type: "string" } },
});

const temp = tempFolder("first-hour");
const warnings: string[] = [];
const outside = new Folder({ path: temp.path, nodeFolder: values.node, warnings });
const app = outside.at(join(temp.path, "app"));
const other = outside.at(join(temp.path, "other"));
const packed = outside.at(join(temp.path, "image"));
let firstWebhookMs = 0;

async function step<A>(name: string, run: () => Promise<A>): Promise<A> {
  const began = performance.now();
  const result = await run();
  const ms = performance.now() - began;
  console.log(`${(ms / 1000).toFixed(1).padStart(6)} s  ${name}`);
  return result;
}

/** The request of the curl that `dev` prints, sent to `url`. */
function sendCurl(text: string, url: string): Promise<Response> {
  const [, path = ""] = /curl -i https?:\/\/[^/]+(\/\S+)/.exec(text) ?? [];
  const headers = Object.fromEntries(
    [...text.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name = "", value = ""]) => [name, value]),
  );
  const [, body = ""] = /-d '([^']+)'/.exec(text) ?? [];
  return fetch(url + path, { method: "POST", headers, body });
}

async function expectStatus(response: Promise<Response>, status: number): Promise<string> {
  const got = await response;
  const text = await got.text();
  if (got.status !== status) throw new Error(`answered ${got.status} ${text}, not ${status}`);
  return text;
}

/** What an agent's class says of its state, by a command of the package. */
const stateOf = (folder: Folder, ...more: ReadonlyArray<string>): Promise<string> =>
  folder.run("npx", "turnkeep", "state", "RepoAgent", "octocat~hello-world", ...more);

const CRON_TEST = `import { expect, it } from "vitest";
import { testAgents } from "turnkeep/testing";
import * as server from "./server.ts";

it("forgets at nine", async () => {
  await using test = await testAgents({ module: server, env: { GITHUB_WEBHOOK_SECRET: "s" } });
  const body = JSON.stringify({ repository: { full_name: "acme/site" } });
  await test.webhook("/webhooks/github", body, test.sign.github(body, "s", { id: "1", event: "push" }));
  const agent = test.agent(server.RepoAgent, "acme~site");
  const count = async () => (await agent.events()).length;
  const before = await count();
  await test.advance("24h");
  expect(await count()).toBeGreaterThan(before);
});
`;

async function firstHour(tarball: string): Promise<void> {
  const began = performance.now();
  await step("init", () =>
    outside.run(
      "npx",
      "--yes",
      "--package",
      tarball,
      "turnkeep",
      "init",
      "app",
      "--turnkeep",
      `file:${tarball}`,
    ),
  );
  await step("npm install", () => app.run("npm", "install"));
  const serving = await step("npm start serves", () =>
    app.serve(/Press Ctrl-C to stop/, "npm", "start", "--", "--port", "0", "--admin-port", "0"),
  );
  const url = await serving.printed(/ url\s+(\S+)/);
  await step("a signed webhook is answered", () => expectStatus(sendCurl(serving.text, url), 200));
  firstWebhookMs = performance.now() - began;
  await step("the page shows it", () => seePage(`${url}/?name=octocat~hello-world`));
  await step("npm test", () => app.run("npm", "test"));
  await step("npm run check", () => app.run("npm", "run", "check"));
  writeFileSync(join(app.path, "cron.test.ts"), CRON_TEST);
  await step("a test of a cron schedule", () => app.run("npx", "vitest", "run", "cron.test.ts"));
  await step("turnkeep schedules shows the next time", async () => {
    const text = await app.run("npx", "turnkeep", "schedules", "RepoAgent", "octocat~hello-world");
    if (!text.includes("0 9 * * *")) throw new Error(text);
  });
  await step("a broken save changes nothing", () => breakAndMend(serving, url));
  await serving.stop();
  await step("under the name agents it is the same", () => otherName(tarball));
  await step("the folder of a container is built", buildImageFolder);
  await step("two hosts and a gateway, and one host dies", installation);
}

/** Fails on anything that the page's console says. */
async function seePage(url: string): Promise<void> {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
  try {
    const page = await browser.newPage();
    page.on("console", (message) => warnings.push(`page: ${message.text()}`));
    page.on("pageerror", (error) => warnings.push(`page: ${error.message}`));
    // Chromium asks for it by itself.
    await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
    await page.goto(url);
    await page.getByText('"events": 1').waitFor();
  } finally {
    await browser.close();
  }
}

async function breakAndMend(serving: Server, url: string): Promise<void> {
  const file = join(app.path, "server.ts");
  const text = readFileSync(file, "utf8");
  const from = serving.text.length;
  writeFileSync(file, text.replace("onRequest(request: Request)", "onRequest(request: )"));
  await serving.printed(
    /can't be loaded. The previous code keeps running.[^]*server\.ts:\d+/,
    from,
  );
  await expectStatus(sendCurl(serving.text, url), 200);
  writeFileSync(file, text);
  await serving.printed(/changed: reloaded/, from);
}

/** How an app that was written for the reference installs it: `npm install agents@npm:turnkeep`. */
async function otherName(tarball: string): Promise<void> {
  mkdirSync(other.path);
  writeFileSync(join(other.path, "package.json"), '{"private":true,"type":"module"}');
  const server = `import { Agent, callable } from "agents";
import { github } from "agents/webhooks";
export class CountAgent extends Agent { @callable() add(n: number) { return n; } }
console.log(typeof github);
`;
  writeFileSync(join(other.path, "server.ts"), server);
  await other.run("npm", "install", `agents@file:${tarball}`);
  await other.serve(
    /agents +CountAgent/,
    "npx",
    "agents",
    "dev",
    "--port",
    "0",
    "--admin-port",
    "0",
  );
  await other.stop();
}

/** What a Dockerfile copies: the module, the manifest, the lock; no development tools. */
async function buildImageFolder(): Promise<void> {
  mkdirSync(packed.path);
  for (const file of ["server.ts", "page.html", "package.json", "package-lock.json"])
    cpSync(join(app.path, file), join(packed.path, file));
  await packed.run("npm", "ci", "--omit=dev");
  const kilobytes = Number.parseInt(await packed.run("du", "-sk", "node_modules"), 10);
  console.log(`          its node_modules: ${Math.round(kilobytes / 1024)} MB`);
}

async function installation(): Promise<void> {
  const nats = await startNats();
  const secret = "a secret of the installation";
  writeFileSync(join(packed.path, ".env"), `GITHUB_WEBHOOK_SECRET=${secret}\n`);
  try {
    await packed.run("npx", "turnkeep", "provision", "--nats", nats.url);
    const role = (name: string, ...args: ReadonlyArray<string>): Promise<Server> =>
      packed.serve(
        new RegExp(`${name} serves`),
        "npx",
        "turnkeep",
        name,
        "server.ts",
        "--nats",
        nats.url,
        "--admin-port",
        "0",
        "--log-format",
        "json",
        ...args,
      );
    const hosts = [await role("host", "--data", "one"), await role("host", "--data", "two")];
    const gateway = await role("gateway", "--port", "0");
    const url = (await gateway.printed(/"url":"([^"]+)"/)).replace("0.0.0.0", "127.0.0.1");
    const { sign } = (await import(
      join(ROOT, "dist/services/webhooks/index.js")
    )) as typeof import("../../services/webhooks/index.ts");
    const send = (id: string): Promise<Response> => {
      const body = JSON.stringify({ repository: { full_name: "octocat/hello-world" } });
      const headers = sign.github(body, secret, { id, event: "push" });
      return fetch(`${url}/webhooks/github`, { method: "POST", headers, body });
    };
    await expectStatus(send("one"), 200);
    for (const server of [...hosts, gateway]) server.mayWarn = true;
    await hosts[0]!.kill();
    for (const id of ["two", "one"]) {
      const { status } = await send(id);
      if (status !== 200 && status !== 202) throw new Error(`answered ${status}`);
    }
    await pollUntil(
      "the agent has both webhooks, once each",
      async () => {
        const text = await stateOf(packed, "--nats", nats.url);
        return (
          text.includes('"events": 2') || text.includes('"events":2') || { done: false, saw: text }
        );
      },
      { timeoutMs: 60_000 },
    );
  } finally {
    await packed.stop();
    await nats.stop();
  }
}

try {
  const repository = new Folder({ path: ROOT, warnings });
  const pack = async (): Promise<string> => {
    const text = await repository.run("npm", "pack", "--silent", "--pack-destination", temp.path);
    return join(temp.path, text.trim().split("\n").at(-1) ?? "");
  };
  await firstHour(values.tarball ?? (await step("npm pack", pack)));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  await app.stop();
  await other.stop();
  await packed.stop();
  temp.remove();
}
console.log(`from init to the first signed webhook: ${(firstWebhookMs / 1000).toFixed(1)} s`);
if (firstWebhookMs > FIRST_WEBHOOK_MS_MAX) process.exitCode = 1;
for (const warning of warnings) console.error(`a warning: ${warning}`);
if (warnings.length > 0) process.exitCode = 1;
