/** The error of a caller when the called agent's host is killed: soon, and it may have run. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, shardOf } from "../../schemas/Address.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { WAITS } from "./callerModule.ts";
import { Installation } from "../kit/Installation.ts";

const MODULE = fileURLToPath(new URL("./callerModule.ts", import.meta.url));
const SHARDS = 8;
const LEASE_TTL_MS = 5_000;
/** Half of a stub's deadline, for which a caller without an answer would wait. */
const TOLD_MS_MAX = 30_000;

let installation: Installation;
let first: AgentsProcess;
let second: AgentsProcess;
let idOfSecond: string;

beforeAll(async () => {
  installation = await Installation.start({
    shards: SHARDS,
    leaseTtlMs: LEASE_TTL_MS,
    module: MODULE,
  });
  first = await installation.startHost("first");
  await installation.shared(1);
  const [idOfFirst] = [...(await installation.shares()).keys()];
  second = await installation.startHost("second");
  await installation.shared(2);
  idOfSecond = [...(await installation.shares()).keys()].find((id) => id !== idOfFirst)!;
});
afterAll(() => installation?.stop());

test("a caller learns of its callee's killed host long before the call's deadline", async () => {
  const leases = await installation.ports.leases.list("shard.");
  const ofSecond = new Set(
    leases.filter(({ value }) => value === idOfSecond).map(({ key }) => key),
  );
  const named = (className: string, onSecond: boolean): string =>
    Array.from({ length: 100 }, (_, n) => `agent-${n}`).find(
      (name) => ofSecond.has(`shard.${shardOf(agentId(className, name), SHARDS)}`) === onSecond,
    )!;
  const caller = named("CallerAgent", false);
  const callee = named("SlowAgent", true);
  const answer = fetch(
    `${installation.gateway.url}/agents/caller-agent/${caller}?callee=${callee}`,
    { signal: AbortSignal.timeout(TOLD_MS_MAX) },
  ).then((response) => response.text());
  await pollUntil(
    "the callee runs on the second host",
    () => second.noise.includes(WAITS) || { done: false, saw: second.told() },
  );
  expect(first.noise).not.toContain(WAITS);
  await second.kill();
  expect(await answer).toContain("may have run");
});
