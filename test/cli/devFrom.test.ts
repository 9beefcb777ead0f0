/** `agents dev --from`, as people run it: an installation's webhooks on a laptop's code. */
import { spawn, type ChildProcess } from "node:child_process";
import { createSocket } from "node:dgram";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { startSystem } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { postGithub, SECRET, type System } from "../system/kit.ts";
import module, { Till, type TillState } from "./tillModule.ts";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const MODULE = join(ROOT, "test/cli/tillModule.ts");
const PERMISSIONS = readFileSync(join(ROOT, "deploy/nats/permissions.conf"), "utf8");
const [READER_MAY = ""] = /^reader_may \{[^]*?^\}/m.exec(PERMISSIONS) ?? [];
const USERS = `${READER_MAY}
authorization { users: [
  { user: all, password: "pw" }
  { user: reader, password: "pw", permissions: $reader_may }
] }`;

const folder = tempFolder("dev-from");
const folderOfOne = tempFolder("dev-from-one");
/** What reached the world. */
const reached: string[] = [];
const api = createServer((request, response) => {
  reached.push(request.url!.slice(1));
  response.end(String(reached.length));
});
const datagrams = createSocket("udp4", () => reached.push("a datagram"));
const as = (user: string): string => nats.url.replace("//", `//${user}:pw@`);
const sell = (item: string, shop = "acme") =>
  postGithub(`${system.url}/hook`, { item, repository: { full_name: shop } });

let nats: TestNats;
let system: System;
let dev: Laptop;

interface Laptop {
  readonly child: ChildProcess;
  text: string;
}

/** Resolves when the dev server follows the installation. */
async function follow(data: string, ...args: string[]): Promise<Laptop> {
  const options = ["--port", "0", "--admin-port", "0", "--console-port", "0", "--data", data];
  const child = spawn(
    process.execPath,
    [join(ROOT, "dist/services/cli/main.js"), "dev", MODULE, ...options, ...args],
    {
      env: { PATH: process.env["PATH"], ...env(), AGENTS_FROM: as("reader"), LAPTOP: "1" },
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  const laptop: Laptop = { child, text: "" };
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (laptop.text += String(chunk)));
  await printed(laptop, "Following nats://***@");
  return laptop;
}

async function end({ child }: Laptop): Promise<void> {
  const ended = new Promise((resolve) => child.once("close", resolve));
  child.kill("SIGTERM");
  await ended;
}

const printed = (laptop: Laptop, part: string): Promise<unknown> =>
  pollUntil(
    `agents dev prints ${part}`,
    () => laptop.text.includes(part) || { done: false, saw: laptop.text },
  );
const env = () => ({
  SECRET,
  API: `http://127.0.0.1:${(api.address() as AddressInfo).port}`,
  PORT: String(datagrams.address().port),
});

/** The state of an agent on the laptop, once it has sold so many. */
async function sold(count: number, shop = "acme"): Promise<TillState> {
  return pollUntil(`${shop} has sold ${count}`, async () => {
    const args = ["state", "Till", shop, "--data", folder.path, "--json"];
    const looked = await runAgents(args, {});
    const { state } = JSON.parse(looked.out) as { readonly state: TillState };
    return state.sold.length === count
      ? { done: true, value: state }
      : { done: false, saw: [looked, dev.text] };
  });
}

beforeAll(async () => {
  nats = await startNats({ configExtra: USERS });
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", resolve));
  await new Promise<void>((resolve) => datagrams.bind(0, "127.0.0.1", resolve));
  system = await startSystem({
    nats: as("all"),
    shards: 4,
    module: { agents: { Till }, webhooks: module.webhooks, env: env() },
  });
  await sell("apple");
  dev = await follow(folder.path);
});
afterAll(async () => {
  if (dev !== undefined) await end(dev);
  await system?.stop();
  await nats?.stop();
  api.close();
  datagrams.close();
  folder.remove();
  folderOfOne.remove();
});

test("a webhook that an installation has processed reaches a fork of its agent, with its recorded step results", async () => {
  await sell("pear");
  const { sold: here } = await sold(2);
  // The first is the installation's own; the second has its answers, and the laptop's code.
  expect(here).toEqual(["apple 1 2", "pear 4 5 here"]);
  await pollUntil("the installation has sent its webhooks", () => reached.length === 6);
  expect(reached).toEqual(["price", "receipt", "sold", "price", "receipt", "sold"]);
  expect(dev.text).toMatch(/Till\/acme: forked at sequence \d+, \d+ events/);
});

test("a dead webhook succeeds on the fork when the code is fixed", async () => {
  expect((await sell("broken", "corner")).status).toBe(500);
  expect((await sold(1, "corner")).sold).toEqual(["broken 7 8 here"]);
  expect(reached.length).toBe(8);
});

test("no other outgoing effect of an agent leaves the laptop", async () => {
  await sell("leave");
  const { kept } = await sold(3);
  expect(kept).toEqual([
    "NothingLeaves",
    "NothingLeaves",
    "NothingLeaves",
    "StepNotRecorded",
    "StepNotRecorded",
  ]);
  expect(reached.filter((path) => !["price", "receipt", "sold"].includes(path))).toEqual([]);
});

test("--agent follows one agent only, whose class may be in another spelling", async () => {
  const laptop = await follow(folderOfOne.path, "--agent", "till/only");
  try {
    expect(laptop.text).toContain(" (only Till/only): webhooks");
    await sell("plum", "acme");
    await sell("plum", "only");
    await printed(laptop, "→ Till/only  from the installation");
    expect(laptop.text).not.toContain("Till/acme");
  } finally {
    await end(laptop);
  }
});

test("a source that can't be followed is an error before anything starts", async () => {
  const told = (...args: string[]) => runAgents(["dev", MODULE, ...args], {});
  const errors = await Promise.all([
    told("--from", as("reader"), "--nats", nats.url),
    told("--agent", "Till/acme"),
    told("--from", as("all"), "--namespace", "other"),
    told("--from", as("reader"), "--agent", "Tills"),
  ]);
  expect(errors.map(({ code, out }) => [code, out])).toEqual([
    [2, ""],
    [2, ""],
    [1, ""],
    [3, ""],
  ]);
  const [both, alone, empty, unknown] = errors.map(({ err }) => err);
  expect(both).toContain("remove --nats (NATS_URL)");
  expect(alone).toContain("--agent requires --from");
  expect(empty).toMatch(/agents provision/);
  expect(unknown).toContain("There are no agents of class Tills. Did you mean Till?");
});
