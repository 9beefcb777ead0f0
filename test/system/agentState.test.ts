/** `state` as an agent's code sees it, and what clients, followers and the journal get of it. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent, getAgentByName, type AgentNamespace, type StateSource } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { journalOf, makeLatch, TestSocket, useSystems, type Latch } from "./kit.ts";

interface Env {
  readonly StateAgent: AgentNamespace<StateAgent>;
  readonly SeededAgent: AgentNamespace<SeededAgent>;
  readonly log: string[];
  readonly latches: Map<string, Latch>;
}

const show = (value: unknown) => JSON.stringify(value) ?? "undefined";

/** Without an `initialState`. */
class StateAgent extends Agent<Env> {
  get() {
    return show(this.state);
  }
  set(value: unknown) {
    this.setState(value);
    return show(this.state);
  }
  unset() {
    this.setState(undefined);
    return show(this.state);
  }
  unserialisable(kind: string) {
    const loop: Record<string, unknown> = {};
    loop["loop"] = loop;
    const values: Record<string, unknown> = { loop, bigint: { n: 1n }, function: () => 1 };
    try {
      this.setState(values[kind]);
      return "accepted";
    } catch (error) {
      return `${(error as Error).name}, still ${show(this.state)}`;
    }
  }
  override validateStateChange(next: unknown, source: StateSource) {
    if ((next as { bad?: true } | null)?.bad) throw new Error(`bad from ${String(source)}`);
  }
  override async onStateChanged(state: unknown, source: StateSource) {
    this.env.log.push(`${this.name} changed ${show(state)} ${String(source)}`);
    if ((state as { trouble?: true } | null)?.trouble) throw new Error("in onStateChanged");
  }
  override onError(error: unknown) {
    this.env.log.push(`${this.name} error ${(error as Error).message}`);
    throw error;
  }
  /** Three writes without an await. */
  burst() {
    this.setState(1);
    this.setState(2);
    this.setState(3);
  }
  /** `early` sets the state, then `late`, then `early` writes a row, all in one commit's flight. */
  async early() {
    const { latches } = this.env;
    await latches.get("in flight")!.opened;
    this.setState("early");
    latches.get("early wrote")!.open();
    await latches.get("late wrote")!.opened;
    this.sql`CREATE TABLE t (x)`;
  }
  async late() {
    const { latches } = this.env;
    await latches.get("early wrote")!.opened;
    this.setState("late");
    latches.get("late wrote")!.open();
  }
  note() {
    this.sql`CREATE TABLE notes (x)`;
  }
  async hold() {
    this.setState("held");
    await Promise.resolve();
    await Promise.resolve();
    this.env.latches.get("in flight")!.open();
  }
}

class SeededAgent extends StateAgent {
  override initialState = { seeded: true };
}

class InvalidSeed extends SeededAgent {
  override initialState = { seeded: true, bad: true };
}

const log: string[] = [];
const latches = new Map<string, Latch>();
const systems = useSystems();
let system: Awaited<ReturnType<typeof systems.start>>;
let env: Env;
beforeAll(async () => {
  system = await systems.start({
    agents: { StateAgent, SeededAgent, InvalidSeed },
    env: { log, latches },
  });
  env = system.gateway.env as unknown as Env;
});
const agent = (name: string) => getAgentByName(env.StateAgent, name);
const seeded = (name: string) => getAgentByName(env.SeededAgent, name);
const statesOf = async (className: string, name: string) =>
  (await journalOf(system.options, className, name)).flatMap((event) =>
    event.turns.flatMap((turn) => (turn.state === undefined ? [] : [turn.state])),
  );

describe("state", () => {
  test("is undefined until it is set, if the class has no initialState", async () => {
    const stub = await agent("unset");
    expect(await stub.get()).toBe("undefined");
    expect(await journalOf(system.options, "StateAgent", "unset")).toEqual([]);
  });

  test("may be set to null, 0, false or the empty string", async () => {
    const stub = await seeded("falsy");
    for (const value of [null, 0, false, ""]) {
      expect(await stub.set(value)).toBe(JSON.stringify(value));
      expect(await stub.get()).toBe(JSON.stringify(value));
    }
    expect(await statesOf("SeededAgent", "falsy")).toEqual(
      [null, 0, false, ""].map((value) => ({ set: value })),
    );
  });

  test("is seeded by the first read, and stored with the first write", async () => {
    const stub = await seeded("seed");
    expect(await stub.get()).toBe('{"seeded":true}');
    expect(await stub.get()).toBe('{"seeded":true}');
    await pollUntil("the hook ran", () => log.includes('seed changed {"seeded":true} server'));
    expect(await journalOf(system.options, "SeededAgent", "seed")).toEqual([]);
    await stub.note();
    expect(await statesOf("SeededAgent", "seed")).toEqual([{ set: { seeded: true } }]);
    expect(await stub.get()).toBe('{"seeded":true}');
  });

  test("set to undefined is unset: the next read seeds it again", async () => {
    const stub = await seeded("again");
    await stub.set("other");
    expect(await stub.unset()).toBe('{"seeded":true}');
    const plain = await agent("again");
    await plain.set("x");
    expect(await plain.unset()).toBe("undefined");
    expect(await statesOf("StateAgent", "again")).toEqual([{ set: "x" }, { clear: true }]);
  });

  test("that the validator rejects changes nothing, and the caller gets its error", async () => {
    const stub = await agent("validated");
    await stub.set({ good: 1 });
    await expect(stub.set({ bad: true })).rejects.toThrow("bad from server");
    expect(await stub.get()).toBe('{"good":1}');
    expect(await statesOf("StateAgent", "validated")).toHaveLength(1);
  });

  test("that JSON can't represent changes nothing", async () => {
    const stub = await agent("unserialisable");
    await stub.set("before");
    for (const kind of ["loop", "bigint", "function"])
      expect(await stub.unserialisable(kind)).toBe('TypeError, still "before"');
    expect(await statesOf("StateAgent", "unserialisable")).toEqual([{ set: "before" }]);
  });

  test("stores all writes without an await between in one commit, and clients see what was stored", async () => {
    const socket = await TestSocket.open(`${system.url}/agents/state-agent/burst`);
    await (await agent("burst")).burst();
    await socket.until("the state", () => socket.states.length >= 3);
    expect(socket.states).toEqual([1, 2, 3]);
    expect(await statesOf("StateAgent", "burst")).toEqual([{ set: 3 }]);
    await socket.close();
  });

  test("is the last one set, whichever turn wrote something else after it", async () => {
    for (const name of ["in flight", "early wrote", "late wrote"]) latches.set(name, makeLatch());
    const stub = await agent("interleaved");
    await Promise.all([stub.early(), stub.late(), stub.hold()]);
    expect(await stub.get()).toBe('"late"');
    const last = (await journalOf(system.options, "StateAgent", "interleaved")).at(-1)!;
    expect(last.turns).toMatchObject([
      { state: { set: "early" }, sql: ["CREATE TABLE t (x)"] },
      { state: { set: "late" } },
    ]);
  });
});

describe("onStateChanged", () => {
  test("runs after the state is stored and sent, with its source", async () => {
    const socket = await TestSocket.open(`${system.url}/agents/state-agent/hook?_pk=client`);
    await socket.first(2);
    socket.send({ type: "cf_agent_state", state: "from client" });
    await pollUntil("the hook ran", () =>
      log.some((line) => line.startsWith('hook changed "from client" [object')),
    );
    await (await agent("hook")).set("from server");
    await pollUntil("the hook ran", () => log.includes('hook changed "from server" server'));
    await socket.close();
  });

  test("that throws calls onError, and the state stays", async () => {
    const stub = await agent("hook-error");
    expect(await stub.set({ trouble: true })).toBe('{"trouble":true}');
    await pollUntil("onError ran", () => log.includes("hook-error error in onStateChanged"));
    expect(await stub.get()).toBe('{"trouble":true}');
    expect(await statesOf("StateAgent", "hook-error")).toEqual([{ set: { trouble: true } }]);
  });
});

describe("an initialState that the validator rejects", () => {
  test("fails the read, and on a socket the connect", async () => {
    const socket = await TestSocket.open(`${system.url}/agents/invalid-seed/x`);
    await socket.until("it is closed", () => socket.closed !== undefined);
    expect(socket.closed?.code).toBe(1011);
  });
});
