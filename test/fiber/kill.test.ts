/**
 * Fibers on a real nats-server while their hosts are killed and replaced, with nobody who calls
 * their agents: each goes on where it was, and what was written together with where to go on is
 * there once.
 */
import { fileURLToPath } from "node:url";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { Installation } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./killModule.ts", import.meta.url));
const WORKERS = 40;
/** As the module. */
const STEPS = 40;
/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 3_000;
/** An alarm is never later, nor a step. */
const QUIET_MS = 5_000;
/** Usual are 20 s. */
const FINISH_TIMEOUT_MS = 120_000;

interface Told {
  readonly steps: ReadonlyArray<number>;
  readonly recoveries: number;
  readonly status: string;
  readonly rows: number;
}

let installation: Installation;
let hosts: { a: AgentsProcess; b: AgentsProcess };
beforeAll(async () => {
  installation = await Installation.start({
    shards: 8,
    leaseTtlMs: LEASE_TTL_MS,
    module: MODULE,
  });
  hosts = { a: await installation.startHost("a"), b: await installation.startHost("b") };
  await installation.shared(2);
});
afterAll(() => installation.stop());

const ask = (n: number, method = "GET"): Promise<Told> =>
  pollUntil(`worker ${n} answers`, async () => {
    const url = `${installation.gateway.url}/agents/worker/${n}`;
    const response = await fetch(url, { method, signal: AbortSignal.timeout(10_000) });
    if (!response.ok) return { done: false, saw: response.status };
    return { done: true, value: (await response.json()) as Told };
  });

test(
  "what hosts leave behind is gone on with, each step once",
  async () => {
    const workers = Array.from({ length: WORKERS }, (_, n) => n);
    await Promise.all(workers.map((n) => ask(n, "POST")));
    await sleep(500);
    await hosts.a.kill();
    hosts.a = await installation.startHost("a");
    await installation.shared(2, 30_000);
    await hosts.b.stop();
    // Nobody asks them meanwhile: the journal says how far they are.
    const { journal } = installation.ports;
    const events = async (): Promise<number> => {
      let all = 0;
      for (const n of workers) all += (await journal.last(agentId("Worker", `${n}`)))?.seq ?? 0;
      return all;
    };
    await pollUntil(
      "nothing goes on any more",
      async () => {
        const before = await events();
        await sleep(QUIET_MS);
        return (await events()) === before || { done: false, saw: before };
      },
      { timeoutMs: FINISH_TIMEOUT_MS },
    );
    const told = await Promise.all(workers.map((n) => ask(n)));
    for (const { steps } of told) expect(steps).toEqual(Array.from({ length: STEPS }, (_, n) => n));
    for (const { status, rows } of told) expect([status, rows]).toEqual(["completed", 1]);
    const recoveries = told.map((each) => each.recoveries);
    console.log(`fibers recovered: ${recoveries.join(" ")}`);
    // The first host's were interrupted for sure, about half of all; the other's may have been
    // through by then.
    const all = recoveries.reduce((sum, each) => sum + each, 0);
    expect(all).toBeGreaterThanOrEqual(WORKERS / 8);
  },
  FINISH_TIMEOUT_MS + 60_000,
);
