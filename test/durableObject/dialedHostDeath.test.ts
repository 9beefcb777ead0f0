/** A host with one end of sockets between objects, or both, is killed (SIGKILL). */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

/** Longer than a busy machine stands still: a call that meets the end of its lease is lost. */
const LEASE_TTL_MS = 5_000;
/** More than it takes until every kind of pair is there, whoever has which shard. */
const PAIRS_MAX = 64;

let installation: Installation;
let host: AgentsProcess;
beforeAll(async () => {
  const module = fileURLToPath(new URL("./dialModule.ts", import.meta.url));
  installation = await Installation.start({ shards: 4, leaseTtlMs: LEASE_TTL_MS, module });
  host = await installation.startHost("a");
  await installation.startHost("b");
  await installation.shared(2);
});
afterAll(() => installation?.stop());

/** Names of another form than the dialers': their shards are not in step. */
const hall = (n: number): string => `hall-${n >> 1}-${"ab"[n & 1]}`;

async function call<A>(object: string, method: string, ...args: unknown[]): Promise<A> {
  const url = `${installation.gateway.url}/${object}/${method}`;
  const answer = await fetch(url, { method: "POST", body: JSON.stringify(args) });
  if (!answer.ok)
    throw new Error(
      `${object} ${method}: ${answer.status} ${await answer.text()}\n${installation.gateway.told()}`,
    );
  return (await answer.json()) as A;
}
const heard = async (n: number, count: number) =>
  pollUntil(`d${n} has heard ${count} messages`, async () => {
    const saw = (await call<{ heard: string[] }>(`Dialer/d${n}`, "told")).heard;
    return saw.length >= count
      ? { done: true as const, value: saw }
      : { done: false as const, saw };
  });

test("the surviving end of each socket is notified, or its socket continues on the next host", async () => {
  /** Numbers of pairs by the hosts of their ends: of the opened socket, then of the other. */
  const kinds = new Map<string, number[]>();
  const first = await call<number>("Dialer/d0", "pid");
  const sideOf = (pid: number): string => (pid === first ? "x" : "y");
  for (let n = 0; n < PAIRS_MAX && kinds.size < 4; n++) {
    await call(`Dialer/d${n}`, "dial", "Hall", hall(n));
    await call(`Dialer/d${n}`, "say", "one");
    expect(await heard(n, 2)).toEqual(["welcome dialer", "echo one"]);
    const kind =
      sideOf(await call(`Dialer/d${n}`, "pid")) + sideOf(await call(`Hall/${hall(n)}`, "pid"));
    kinds.set(kind, [...(kinds.get(kind) ?? []), n]);
  }
  expect([...kinds.keys()].toSorted()).toEqual(["xx", "xy", "yx", "yy"]);

  await host.kill();
  await installation.shared(1);
  const isFirstDead = (await call<number>("Dialer/d0", "pid")) !== first;
  const [dead, living] = isFirstDead ? ["x", "y"] : ["y", "x"];

  // Both live; the end that was called has moved, and hibernated with its host.
  for (const [kind, who] of [
    [living + living, '"dialer'],
    [living + dead, '"dialer (again)"'],
  ] as const)
    for (const n of kinds.get(kind)!) {
      await call(`Dialer/d${n}`, "say", "who");
      expect((await heard(n, 3)).at(-1)).toContain(who);
    }
  for (const n of kinds.get(dead + living)!)
    await pollUntil(`${hall(n)} was told`, async () => {
      const saw = await call(`Hall/${hall(n)}`, "closes");
      return JSON.stringify(saw) === '[[1006,"",false]]' || { done: false as const, saw };
    });
  for (const n of kinds.get(dead + dead)!)
    expect(await call(`Hall/${hall(n)}`, "closes")).toBeNull();
});
