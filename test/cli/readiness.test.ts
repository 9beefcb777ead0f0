/** When `/readyz` says yes, and which trouble it only names (`services/wiring/readiness`). */
import { describe, expect, test } from "vitest";
import { NotPermitted } from "../../core/bus/Bus.ts";
import { readinessOf, type ReadinessFacts } from "../../services/wiring/readiness.ts";

const gatewayAlone: ReadinessFacts = {
  connected: true,
  host: undefined,
  gateway: { shardsUnowned: 0, shardsOverdue: 0, shardsEverOwned: 8 },
  shards: 8,
  leaseTtlMs: 5_000,
  durability: "weak",
};
const UNSTORED =
  'the broker has not stored this process\'s lease for 12 s: no ack. Its disk or a limit may be full, or the stream lost ("agents provision" creates it)';

describe("a gateway", () => {
  test("is not ready before every shard has had a host", () => {
    const gateway = { shardsUnowned: 1, shardsOverdue: 0, shardsEverOwned: 7 };
    const reason = "some shards have had no host yet";
    expect(readinessOf({ ...gatewayAlone, gateway })).toEqual({ ready: false, reason });
    expect(readinessOf(gatewayAlone)).toEqual({ ready: true, note: "durability: weak" });
  });

  test("stays ready when hosts die later, and reports how many shards lack one", () => {
    const gateway = { shardsUnowned: 3, shardsOverdue: 0, shardsEverOwned: 8 };
    expect(readinessOf({ ...gatewayAlone, gateway })).toEqual({
      ready: true,
      note: "durability: weak\nhosts: 3 of 8 shards have none; their webhooks are stored, and their callers wait",
    });
  });

  test("stays ready when no shard has had a host for a long time, and reports the number", () => {
    const gateway = { shardsUnowned: 8, shardsOverdue: 7, shardsEverOwned: 8 };
    expect(readinessOf({ ...gatewayAlone, gateway })).toMatchObject({
      ready: true,
      note: expect.stringContaining(
        "\noverdue: 7 of 8 shards have had no host for more than 10 s",
      ) as string,
    });
  });

  test("stays ready while the broker stores nothing, and reports it", () => {
    const unstored = {
      what: "stored this process's lease",
      forMs: 12_000,
      reason: "no ack",
    };
    expect(readinessOf({ ...gatewayAlone, unstored })).toEqual({
      ready: true,
      note: `durability: weak\nstorage: ${UNSTORED}`,
    });
    const brief = { ...unstored, forMs: 9_000 };
    expect(readinessOf({ ...gatewayAlone, unstored: brief })).toEqual({
      ready: true,
      note: "durability: weak",
    });
  });

  test("is not ready while the broker is unreachable", () => {
    expect(readinessOf({ ...gatewayAlone, connected: false })).toEqual({
      ready: false,
      reason: "the broker can't be reached",
    });
  });
});

test("what the broker refused is reported, whether or not the process is ready", () => {
  const refusal = "the login may not use $JS.API.CONSUMER.CREATE.agents_INBOX.x";
  const told = `${refusal}. Compare the login's rights with deploy/nats/permissions.conf`;
  expect(readinessOf({ ...gatewayAlone, refusal })).toMatchObject({
    ready: true,
    note: expect.stringContaining(`durability: weak\nrights: ${told}`) as string,
  });
  const host = { ready: false, shardsUnowned: 5, shardsOverdue: 4 };
  expect(readinessOf({ ...gatewayAlone, gateway: undefined, host, refusal })).toMatchObject({
    ready: false,
    reason: expect.stringContaining(`no host for more than 10 s; ${told}`) as string,
  });
});

describe("a host", () => {
  test("is ready when it owns its share of shards", () => {
    const hostAlone = { ...gatewayAlone, gateway: undefined };
    const reason = "shards are still being claimed";
    const claiming = { ready: false, shardsUnowned: 2, shardsOverdue: 0 };
    expect(readinessOf({ ...hostAlone, host: claiming })).toEqual({ ready: false, reason });
    const host = { ready: true, shardsUnowned: 0, shardsOverdue: 0 };
    expect(readinessOf({ ...hostAlone, host }).ready).toBe(true);
  });

  test("is not ready while the broker stores nothing, which is why shards have no owner", () => {
    const host = { ready: false, shardsUnowned: 8, shardsOverdue: 8 };
    const unstored = {
      what: "stored this process's lease",
      forMs: 12_000,
      reason: "no ack",
    };
    const facts = { ...gatewayAlone, gateway: undefined, host, unstored };
    expect(readinessOf(facts)).toEqual({ ready: false, reason: UNSTORED });
  });

  test("is not ready once the broker refuses it, and says which right is missing and what to do", () => {
    const host = { ready: true, shardsUnowned: 0, shardsOverdue: 0 };
    const why = "the login may not use agents.call.0.>";
    const reason = new NotPermitted({ message: why });
    const unstored = { what: "delivered agents.call.0.>", forMs: 400, reason };
    expect(readinessOf({ ...gatewayAlone, gateway: undefined, host, unstored })).toEqual({
      ready: false,
      reason: `the broker has not delivered agents.call.0.> for 0 s: ${why}. Compare the login's rights with deploy/nats/permissions.conf of this release, reload the servers, and restart this process`,
    });
  });

  test("reports how many shards have had no owner for longer than a take-over takes", () => {
    const host = { ready: false, shardsUnowned: 5, shardsOverdue: 4 };
    expect(readinessOf({ ...gatewayAlone, gateway: undefined, host })).toEqual({
      ready: false,
      reason: "4 of 8 shards have had no host for more than 10 s",
    });
  });
});
