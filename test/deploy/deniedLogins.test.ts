/** What a login of `deploy/nats` may not do ends at once, and the reason names the right. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { top } from "../../services/cli/commands/top.ts";
import { openReader, provisionTarget } from "../../services/wiring/joinReader.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { deployNats, type Deployed, type User } from "./DeployedNats.ts";

const SHARDS = 4;
const id = agentId("Ledger", "one");
/** The retries and timeouts of these requests. One that ends so does not name the right. */
const GIVEN_UP_MS = 30_000;
/** More than a busy machine needs. */
const AT_ONCE_MS = GIVEN_UP_MS / 2;

let nats: Deployed;
let ports: Awaited<ReturnType<typeof openReader>>;

const target = (user: User) => ({ natsUrl: nats.url(user), login: {}, namespace: "agents" });

beforeAll(async () => {
  nats = await deployNats({ config: "single.conf" });
  await provisionTarget(target("operator"), {
    shards: SHARDS,
    replicas: 1,
    leaseTtlMs: undefined,
  });
  ports = await openReader(target("reader"), { sql: false });
});

afterAll(async () => {
  await ports?.close();
  await nats?.stop();
});

/** Resolves to the reason for which `ask` failed. */
async function reasonOf(ask: () => Promise<unknown>): Promise<string> {
  const startMs = performance.now();
  const found = await ask().then(
    (value) => JSON.stringify(value),
    (error: Error) => error.message,
  );
  expect(performance.now() - startMs).toBeLessThan(AT_ONCE_MS);
  return found;
}

describe("with the reader's login", () => {
  test("a call fails", async () => {
    for (const kind of ["state", "erase"] as const) {
      const call = () =>
        ports.calls.call(id, { kind }, { deadlineMs: GIVEN_UP_MS, repeatable: true });
      const kindOf = kind === "state" ? "call" : "control";
      expect(await reasonOf(call)).toMatch(
        new RegExp(
          `^Agent Ledger/one can't be reached: the login may not use agents\\.${kindOf}\\.`,
        ),
      );
    }
  });

  test("an event and an input are not stored", async () => {
    const signal = AbortSignal.timeout(GIVEN_UP_MS);
    const data = new Uint8Array(8);
    expect(
      await reasonOf(() => ports.journal.append(id, data, { expectedSeq: 0 as Sequence, signal })),
    ).toContain("the login may not use agents.journal.Ledger.one");
    expect(await reasonOf(() => ports.inbox.publish(id, data, { signal }))).toContain(
      "the login may not use agents.inbox.",
    );
    const large = new Uint8Array(3 * 1024 * 1024);
    expect(await reasonOf(() => ports.inbox.publish(id, large, { signal }))).toContain(
      "the login may not use ",
    );
  });

  test("nothing is removed, and no timer is set", async () => {
    expect(await reasonOf(() => ports.purgeInputs(id))).toContain("the login may not use ");
    const armed = () => ports.timers.arm(id, "t", 0, new Uint8Array(1));
    expect(await reasonOf(armed)).toContain("the login may not use agents.timer.");
  });

  test("no lease is claimed", async () => {
    // The commands' view of the leases has no writes.
    const leases = ports.leases as LeasesShape;
    expect(await reasonOf(() => leases.claim("archive", "reader"))).toMatch(
      /^the login may not use \$KV\.agents_LEASES\.archive$/,
    );
  });

  test("agents top fails with the reason", async () => {
    const asked = () => top(ports, undefined as never, { className: undefined, time: machineTime });
    expect(await reasonOf(asked)).toMatch(
      /^No host has answered: .* the login may not use agents\.control\./,
    );
  });
});

test("an operator's call that takes long may watch whether its host is lost", async () => {
  const operator = await openReader(target("operator"), { sql: false });
  const stop = new AbortController();
  try {
    const watching = (operator.leases as unknown as LeasesShape).watch(
      () => undefined,
      stop.signal,
    );
    await Promise.race([watching, new Promise((resolve) => setTimeout(resolve, AT_ONCE_MS))]);
    const consumers = await (await nats.connect("operator")).request(
      "$JS.API.STREAM.INFO.KV_agents_LEASES", "", { timeout: GIVEN_UP_MS },
    ); // prettier-ignore
    expect(consumers.json()).toMatchObject({ state: { consumer_count: 1 } });
  } finally {
    stop.abort();
    await operator.close();
  }
});
