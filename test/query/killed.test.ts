/** Queries while what answers them is killed: a whole answer or an error, never a part. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { serveConsole } from "../console/serveConsole.ts";

const MODULE = fileURLToPath(new URL("./shopModule.ts", import.meta.url));
const ASKERS = 2;
/** An answer of so many rows is past the payload limit: it goes by the blob store. */
const ROWS = 1_500;
const MAX_PAYLOAD = 64 * 1024;
/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 5_000;
const numbers = (most: number): string =>
  `WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < ${most})`;
const SQL = `${numbers(ROWS)} SELECT n, (SELECT sum(state->>'sold') FROM Shop) AS sold, hex(zeroblob(40)) AS pad FROM r`;

let installation: Installation;
beforeAll(async () => {
  installation = await Installation.start({ shards: 1, module: MODULE, leaseTtlMs: LEASE_TTL_MS, maxPayload: MAX_PAYLOAD }); // prettier-ignore
});
afterAll(() => installation?.kill());

interface Answer {
  readonly askedMs: number;
  readonly endMs: number;
  /** Undefined: the answer is whole. */
  readonly wrong: string | undefined;
}

/** By `query` in the module's `fetch`. */
const ask = async (): Promise<Answer> => {
  const askedMs = performance.now();
  const response = await fetch(`${installation.gateway.url}/rich?sql=${encodeURIComponent(SQL)}`);
  const text = await response.text();
  const rows = response.ok ? (JSON.parse(text) as Array<{ n: number; sold: number }>) : undefined;
  const isWhole =
    rows?.length === ROWS && rows.every(({ n, sold }, i) => n === i + 1 && sold === 3);
  const wrong = isWhole ? undefined : `${response.status} ${rows?.length ?? text}`;
  return { askedMs, endMs: performance.now(), wrong };
};

it("a query gets its whole answer from the next host when the answering one is killed", async () => {
  const first = await installation.startHost("a");
  await first.ready();
  const call = installation.caller("Shop");
  for (const count of [1, 2]) await call(`shop ${count}`, "sell", count);
  const answers: Answer[] = [];
  let over = false;
  const askers = Array.from({ length: ASKERS }, async () => {
    while (!over) answers.push(await ask());
  });
  await installation.startHost("b");
  await pollUntil("answers", () => answers.length > ASKERS || { done: false, saw: answers });
  const atMs = performance.now();
  await first.kill();
  await pollUntil("answers to what was asked before the kill", () => {
    const across = answers.filter(({ askedMs, endMs }) => askedMs < atMs && endMs > atMs);
    return across.length === ASKERS || { done: false, saw: answers.at(-1) };
  });
  over = true;
  await Promise.all(askers);
  expect(answers.flatMap(({ wrong }) => wrong ?? [])).toEqual([]);
});

it("a query is an error in the console when its process is killed", async () => {
  const token = "a token for these tests";
  const served = await serveConsole(installation.nats.url, ["--data", installation.pathOf("console")], { AGENTS_CONSOLE_TOKEN: token }); // prettier-ignore
  const endless = `${numbers(1e9)} SELECT max(n) FROM r`;
  // As of an earlier time: any other question goes to a host.
  const asked = fetch(`${served.url}/api/query?at=0s&sql=${encodeURIComponent(endless)}`, {
    headers: { authorization: `Bearer ${token}` },
  });
  const { pid } = served.process;
  const child = await pollUntil("the console's own process", () => {
    const found = Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim());
    return found > 0 ? { done: true, value: found } : { done: false, saw: found };
  });
  process.kill(child, "SIGKILL");
  const answer = await asked;
  expect([answer.status, await answer.json()]).toEqual([
    503,
    { error: "agents query was ended by SIGKILL before it had a result. Try again." },
  ]);
  served.process.kill();
});
