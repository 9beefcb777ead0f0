/** `RpcTarget`s by reference in calls: of objects and agents, in virtual time and on two hosts. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import { RpcTarget } from "cloudflare:workers";
import { readModule } from "../../services/module/readModule.ts";
import { pollUntil } from "../kit/poll.ts";
import { startTestHost, type TestModule } from "../kit/system.ts";
import { useSystems } from "../system/kit.ts";
import * as targets from "./targetsModule.ts";
import { Desk, Vault, type Env } from "./targetsModule.ts";

/** Code of no agent has it. */
class Relay extends RpcTarget {
  times = 0;
  add(by: number): void {
    this.times += by;
  }
  value(): string {
    return String(this.times);
  }
}
class Failing extends RpcTarget {
  add(): void {
    throw new RangeError("not today");
  }
}
class Endless extends Relay {
  override value(): string {
    return "x".repeat(2 ** 24);
  }
}

type Methods = Record<string, (...args: unknown[]) => Promise<unknown>>;

let rig: TestAgents;
beforeEach(async () => {
  rig = await testAgents({ module: { ...targets, default: { fetch: () => new Response() } } });
});
afterEach(() => rig.close());

const desk = (name = "d") => rig.agent(Desk, name);
const vault = () => (rig.env as unknown as Env).Vault.getByName("one") as unknown as Methods;

describe("a target that a method returns", () => {
  test("runs where it is, and its methods are turns of its object", async () => {
    expect(await desk().run("use")).toEqual({
      seen: [7, 7],
      date: 8,
      error: "overdrawn",
      none: ["Method secret does not exist", "Method hasOwnProperty does not exist"],
      like: ["undefined", true],
    });
    await rig.crash();
    await rig.revive();
    const account = (await vault()["open"]!()) as Methods;
    expect(await account["value"]!()).toBe(7);
  });

  test("may be nested in a value, and is one stub there", async () => {
    expect(await desk().run("within")).toEqual([["a"], true, 1]);
  });

  test("can't be called once its holder has disposed of it", async () => {
    expect(await desk().run("dispose")).toMatch(
      /^value: the RpcTarget of Vault\/one was disposed of/,
    );
  });

  test("is valid until its holder's turn ends, and keeps its object in memory until then", async () => {
    await desk().run("use");
    expect(await desk().stillHolds()).toMatch(/or the turn that received it has ended/);
    await rig.advance("30 s");
    expect(rig.agent(Vault as never, "one").isActive()).toBe(false);
  });

  test("expires after a minute without calls if its holder does not dispose of it", async () => {
    const account = (await vault()["open"]!()) as Methods;
    await rig.advance("50 s");
    expect(await account["add"]!(1)).toBe(1);
    await rig.advance("50 s");
    expect(await account["value"]!()).toBe(1);
    await rig.advance("70 s");
    await expect(account["value"]!()).rejects.toThrow("The RpcTarget of Vault/one is gone");
  });

  test("is lost with its host, and the error says so", async () => {
    const account = (await vault()["open"]!()) as Methods;
    await rig.crash();
    await rig.revive();
    await expect(account["value"]!()).rejects.toThrow(/is gone: .* left memory. Request it again/);
  });

  test("may be the agent itself", async () => {
    expect(await desk().run("ofAgent")).toEqual([
      2,
      expect.stringMatching(/Listener is an RpcTarget.*as the result; calls/),
    ]);
  });

  test("counts towards a limit of a thousand per object", async () => {
    const opened = Array.from({ length: 1_000 }, () => vault()["open"]!());
    const [first] = (await Promise.all(opened)) as Array<Methods & Disposable>;
    await expect(vault()["open"]!()).rejects.toThrow(/has 1000 RpcTargets in use by others/);
    first![Symbol.dispose]();
    await rig.settled();
    expect(await vault()["open"]!()).toBeDefined();
  });
});

describe("a target that is an argument", () => {
  test("is called back during the call, and not afterwards", async () => {
    expect(await desk().run("callBack")).toBe(3);
    await expect(vault()["tellLater"]!()).rejects.toThrow(
      /the RpcTarget of Desk\/d was disposed of, or the turn that received it has ended/,
    );
  });

  test("receives calls that its holder did not await, too", async () => {
    await desk().run("tellAndLeave");
    await rig.settled();
    expect(await desk().heard()).toBe(5);
  });

  test("may be passed to an agent, and on by the holder of a stub", async () => {
    expect(await desk().run("callBackAnAgent")).toBe(2);
    expect(await desk().run("passOn")).toBe(42);
  });

  test("may come from code outside agents, which is called back", async () => {
    const relay = new Relay();
    expect(await vault()["tell"]!(relay, 3)).toBe("3");
    await expect(vault()["tellLater"]!()).rejects.toThrow(
      /the RpcTarget of \$process\/gateway was disposed of, or the turn that received it has ended/,
    );
    expect(relay.times).toBe(3);
    await expect(vault()["tell"]!(new Failing(), 1)).rejects.toThrow("not today");
    class Silent extends RpcTarget {}
    await expect(vault()["tell"]!(new Silent(), 1)).rejects.toThrow("Method add does not exist");
  });
});

describe("on two hosts", () => {
  const systems = useSystems();
  test("calls reach a target from all agents, wherever they are", async () => {
    const { agents } = readModule({ ...targets }, "targets.ts");
    const module = { agents: Object.fromEntries(agents) } as unknown as TestModule;
    const system = await systems.start(module);
    const second = await startTestHost(system.options, "host-b");
    await pollUntil("both have shards", () => second.host.shardsOwned.length > 0);
    const { Desk: desks } = system.gateway.env as unknown as Env;
    const run = (n: number) =>
      (desks.getByName(`d${n}`) as unknown as Methods)["run"]!("within") as Promise<unknown[]>;
    const seen = await Promise.all(Array.from({ length: 16 }, (_, n) => run(n)));
    expect(seen.every(([, isOne]) => isOne === true)).toBe(true);
    expect(system.host.host.agentsActive).toBeGreaterThan(0);
    expect(second.host.agentsActive).toBeGreaterThan(0);
    const { Vault: vaults } = system.gateway.env as unknown as Env;
    const tell = async (n: number, target: RpcTarget) =>
      (vaults.getByName(`v${n}`) as unknown as Methods)["tell"]!(target, 2);
    const told = Array.from({ length: 16 }, (_, n) => tell(n, new Relay()));
    expect(await Promise.all(told)).toEqual(Array(16).fill("2"));
    await expect(tell(0, new Endless())).rejects.toThrow(/bytes; the broker's limit is/);
    await second.stop();
  });
});
