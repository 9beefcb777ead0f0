/** When `/readyz` says yes, and which trouble it only names: rules of `services/cli/readiness`. */
import { describe, expect, test } from "vitest";
import { readinessOf, type ReadinessFacts } from "../../services/cli/readiness.ts";

const gatewayAlone: ReadinessFacts = {
  connected: true,
  host: undefined,
  gateway: { shardsOwned: 8, shardsEverOwned: 8 },
  shards: 8,
  durability: "weak",
};

describe("a gateway", () => {
  test("is not ready before every shard has had a host", () => {
    const gateway = { shardsOwned: 7, shardsEverOwned: 7 };
    const reason = "some shards have had no host yet";
    expect(readinessOf({ ...gatewayAlone, gateway })).toEqual({ ready: false, reason });
    expect(readinessOf(gatewayAlone)).toEqual({ ready: true, note: "durability: weak" });
  });

  test("stays ready when hosts die later, and says for how many shards", () => {
    const gateway = { shardsOwned: 5, shardsEverOwned: 8 };
    expect(readinessOf({ ...gatewayAlone, gateway })).toEqual({
      ready: true,
      note: "durability: weak\nhosts: 3 of 8 shards have none; their webhooks are stored, their callers wait",
    });
  });

  test("is not ready while the broker can't be reached: it can store nothing", () => {
    expect(readinessOf({ ...gatewayAlone, connected: false })).toEqual({
      ready: false,
      reason: "the broker can't be reached",
    });
  });
});

describe("a host", () => {
  test("is ready when it owns its share", () => {
    const hostAlone = { ...gatewayAlone, gateway: undefined };
    const reason = "shards are still being claimed";
    expect(readinessOf({ ...hostAlone, host: false })).toEqual({ ready: false, reason });
    expect(readinessOf({ ...hostAlone, host: true }).ready).toBe(true);
  });
});
