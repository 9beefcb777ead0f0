/** Statements that take seconds, on a host that also answers quick ones. */
import { execFile, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { runCommand } from "../kit/runCommand.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const MODULE = fileURLToPath(new URL("./shopModule.ts", import.meta.url));
const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
/** The most that there is. Quick queries take some milliseconds. */
const SECONDS = "60";
const counting = (most: string): string =>
  `WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r ${most})`;
const ENDLESS = `${counting("")} SELECT max(n) FROM r`;
const NAMES = "SELECT name FROM Shop ORDER BY name";
/** Takes longer than a statement may take in the view, and then reads the agents. */
const SLOW = `${counting("WHERE n < 5000000")} SELECT group_concat(name) AS names, (SELECT max(n) FROM r) AS n FROM (${NAMES})`;

const folder = tempFolder("slow-query");
const commands: ChildProcess[] = [];
let installation: Installation;

/** Starts `agents query` in a process of its own. */
function start(...args: string[]) {
  let ended: string | undefined;
  const child = execFile(
    process.execPath,
    [MAIN, "query", ...args, "--data", folder.path],
    { env: { PATH: process.env["PATH"] ?? "", NATS_URL: installation.nats.url } },
    (_, out, err) => (ended = out + err),
  );
  commands.push(child);
  return { end: () => child.kill(), ended: () => ended };
}

const views = () => join(installation.pathOf("host"), "hosts", "0", "view");
/** The copies of the view that there are. */
const copies = (): string[] => {
  const path = join(views(), "copies");
  return existsSync(path) ? readdirSync(path) : [];
};
const copyMade = () =>
  pollUntil("the statement runs on a copy", () => copies().length > 0 || { done: false, saw: [] });
const noCopies = () =>
  pollUntil("no copy is left", () => copies().length === 0 || { done: false, saw: copies() });

async function ask(sql: string): Promise<unknown> {
  const response = await fetch(`${installation.gateway.url}/?sql=${encodeURIComponent(sql)}`);
  return response.json();
}

beforeAll(async () => {
  installation = await Installation.start({ shards: 1, module: MODULE });
  await (await installation.startHost("host")).ready();
  await installation.gateway.ready();
  const call = installation.caller("Shop");
  for (const name of ["one", "two"]) await call(name, "sell", 1);
});
afterAll(async () => {
  for (const command of commands) command.kill();
  await installation?.kill();
  folder.remove();
});

test("a slow one that is stopped says so, and leaves no copy", async () => {
  const { code, err } = await runCommand([
    "query", ENDLESS, "--seconds", "1", "--nats", installation.nats.url,
  ]); // prettier-ignore
  expect([code, err]).toEqual([1, expect.stringContaining("was stopped after 1 seconds")]);
  await noCopies();
});

test("a slow one has what was stored before it was asked", async () => {
  await installation.caller("Shop")("three", "sell", 1);
  expect(await ask(SLOW)).toEqual([{ names: "one,three,two", n: 5_000_000 }]);
});

test("queries of code are answered while an operator's runs on", async () => {
  const operator = start(ENDLESS, "--seconds", SECONDS);
  await copyMade();
  const names = ["one", "three", "two"].map((name) => ({ name }));
  for (let n = 0; n < 5; n++) expect(await ask(NAMES)).toEqual(names);
  expect(operator.ended()).toBeUndefined();
  operator.end();
});
