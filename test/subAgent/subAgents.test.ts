/** Sub-agents from code: made, listed, asked, aborted and deleted, over a real broker. */
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { getAgentByName, getSubAgentByName, type AgentNamespace, type AgentStub } from "agents";
import { pollUntil } from "../kit/poll.ts";
import { startTestGateway, startTestHost } from "../kit/system.ts";
import { useSystems, type System } from "../system/kit.ts";
import { Failing, Runner, Sub, Supervisor, Tool } from "./family.ts";

const agents = { Supervisor, Runner, Tool, Failing, Sub };
const systems = useSystems();
let system: System;
let names = 0;
let env: Record<string, AgentNamespace>;

beforeAll(async () => {
  system = await systems.start({ agents });
  env = system.gateway.env as typeof env;
});

const supervisor = (name = `s-${++names}`): Promise<AgentStub<Supervisor>> =>
  getAgentByName(env["Supervisor"] as AgentNamespace<Supervisor>, name);
let one: AgentStub<Supervisor>;
beforeEach(async () => {
  one = await supervisor();
});
const runnerOf = (of: AgentStub<Supervisor>, name: string): Promise<AgentStub<Runner>> =>
  getSubAgentByName(of, Runner, name);

describe("a sub-agent", () => {
  test("is created once, started, and has its own state, SQL and name", async () => {
    const two = await supervisor();
    expect(await one.make("run")).toBe("run");
    expect(await one.tell("run", "a")).toBe(1);
    expect(await one.tell("run", "b")).toBe(2);
    expect(await two.tell("run", "c")).toBe(1);
    expect(await one.tell("other", "d")).toBe(1);
    expect(await one.notesOf("run")).toEqual(["a", "b"]);
    expect(await two.notesOf("run")).toEqual(["c"]);
    // One of that name that is nobody's.
    const top = await getAgentByName(env["Runner"] as AgentNamespace<Runner>, "run");
    expect(await top.notes()).toEqual([]);
  });

  test("is listed in the order of first use", async () => {
    expect([await one.list(), await one.has("b")]).toEqual([[], [false, false]]);
    for (const name of ["b", "a", "b"]) await one.make(name);
    expect(await one.list()).toEqual(["Runner b", "Runner a"]);
    expect(await one.list("Runner")).toEqual(["Runner b", "Runner a"]);
    expect(await one.list("Tool")).toEqual([]);
    expect([await one.has("b"), await one.has("c")]).toEqual([[true, true], [false, false]]); // prettier-ignore
  });

  test("knows its ancestors, whatever their names", async () => {
    const name = `50% of a/b ${++names}`;
    one = await supervisor(name);
    const child = "c/d %2F é";
    const parentPath = [{ className: "Supervisor", name }];
    const selfPath = [...parentPath, { className: "Runner", name: child }];
    expect(await (await runnerOf(one, child)).where()).toEqual({
      name: child,
      id: child,
      parentPath,
      selfPath,
    });
    expect(await (await runnerOf(one, child)).useTool("t/1")).toEqual({
      uses: 1,
      path: [...selfPath, { className: "Tool", name: "t/1" }],
      parent: 1,
    });
    expect(await one.where()).toEqual({ parentPath: [], selfPath: parentPath });
  });

  test("calls its parent; another class, or a missing parent, is an error with the reason", async () => {
    const runner = await runnerOf(one, "r");
    expect(await runner.askParent("hello")).toBe(`${one.name} heard hello from r`);
    await expect(runner.askWrongParent()).rejects.toThrow(
      'parentAgent(Tool): the parent of this sub-agent is a "Supervisor", not a "Tool"',
    );
    await expect(one.parentOfNone()).rejects.toThrow(
      "parentAgent(): Supervisor is not a sub-agent: only agents that this.subAgent() returned have a parent",
    );
  });

  test("is refused with the reason, and is not listed", async () => {
    await expect(one.makeAny("Unexported", "a")).rejects.toThrow(
      'Sub-agent class "Unexported" not found among the module\'s exports',
    );
    await expect(one.makeAny("Sub", "a")).rejects.toThrow('kebab-cases to "sub"');
    await expect(one.make("")).rejects.toThrow("Sub-agent name is empty");
    await expect(one.make("a\0b")).rejects.toThrow("null character");
    await expect(one.make("x".repeat(1020))).rejects.toThrow("the limit is 1024 bytes");
    await expect(one.makeFailing("a")).rejects.toThrow("no start today");
    expect(await one.list()).toEqual([]);
  });

  test("has its own schedules, which run on any host", async () => {
    const options = systems.options({ agents });
    const gateway = await startTestGateway(options, "gateway");
    let host = await startTestHost(options, "host-a");
    try {
      const first = (gateway.env["Supervisor"] as AgentNamespace<Supervisor>).getByName("s");
      const runner = await runnerOf(first, "r");
      await runner.later(1, "on time");
      expect(await runner.planned()).toBe(1);
      await host.stop();
      host = await startTestHost(options, "host-b");
      await pollUntil("its schedule has run", async () => {
        const notes = await first.notesOf("r");
        return { done: JSON.stringify(notes) === '["on time"]', value: notes, saw: notes };
      });
    } finally {
      await gateway.stop();
      await host.stop();
    }
  });
});

describe("its deletion", () => {
  test("removes its state, SQL and schedules, and everything below it; a repetition has no effect", async () => {
    await one.tell("r", "a");
    const runner = await runnerOf(one, "r");
    await runner.later(3600, "never");
    await runner.useTool("t");
    await one.remove("r");
    await one.remove("r");
    expect(await one.list()).toEqual([]);
    expect(await one.notesOf("r")).toEqual([]);
    expect([await runner.planned(), await runner.tools()]).toEqual([0, 0]);
    expect(await runner.useTool("t")).toMatchObject({ uses: 1 });
    expect(await one.list()).toEqual(["Runner r"]);
  });

  test("works even if its code can't start", async () => {
    await expect(one.makeFailing("f")).rejects.toThrow("no start today");
    // Asked for from outside it is listed before it fails.
    const failing = await getSubAgentByName(one, Failing, "f");
    await expect((failing as unknown as { any: () => Promise<void> }).any()).rejects.toThrow();
    expect(await one.list()).toEqual(["Failing f"]);
    await one.removeFailing("f");
    expect(await one.list()).toEqual([]);
  });

  test("by itself is answered to the caller, and removes it from its parent's list", async () => {
    await one.tell("r", "a");
    await (await runnerOf(one, "r")).leave();
    expect(await one.list()).toEqual([]);
    expect(await one.notesOf("r")).toEqual([]);
  });

  test("with its parent is answered to the parent's caller", async () => {
    await one.tell("r", "a");
    await (await runnerOf(one, "r")).useTool("t");
    expect(await one.giveUp()).toBe("gone");
    expect(await one.list()).toEqual([]);
    expect(await one.notesOf("r")).toEqual([]);
    expect(await (await runnerOf(one, "r")).useTool("t")).toMatchObject({ uses: 1 });
  });

  test("differs from abort, which clears its memory and keeps its storage, and aborts running code", async () => {
    await one.tell("r", "a");
    const runner = await runnerOf(one, "r");
    expect([await runner.remember(), await runner.remember()]).toEqual([1, 2]);
    const hung = runner.hang().then(() => "ended", String);
    await pollUntil("it hangs", async () => (await runner.unsaved()) === -1);
    await one.stop("r", "too slow");
    expect(await hung).toMatch("too slow");
    expect(await runner.remember()).toBe(1);
    expect(await one.notesOf("r")).toEqual(["a"]);
    expect(await one.list()).toEqual(["Runner r"]);
  });
});

test("a sub-agent that is asked for while it is deleted stays listed", async () => {
  await one.tell("r", "a");
  expect(await one.remakeWhileDeleted("r")).toEqual(["Runner r"]);
});

test("a sub-agent of a sub-agent is listed, as its parent is, when it is first called", async () => {
  const tool = await getSubAgentByName(await runnerOf(one, "mid"), Tool, "leaf");
  await tool.use();
  expect(await one.list()).toEqual(["Runner mid"]);
});

describe("its address", () => {
  test("is not allowed as a user's name", async () => {
    expect(() => env["Runner"]!.getByName("/Supervisor/s/r")).toThrow(
      'Agent name "/Supervisor/s/r" begins with "/": that is how sub-agents are addressed',
    );
    await expect(getAgentByName(env["Runner"]!, "/Supervisor/s/r")).rejects.toThrow("begins with");
  });

  test("of getSubAgentByName requires a stub, and calls methods only", async () => {
    const runner = await runnerOf(one, "r");
    expect(() => runner.fetch("http://any/")).toThrow("RPC-only stub");
    await expect(getSubAgentByName({}, Runner, "r")).rejects.toThrow(
      "the first argument is not a stub",
    );
    await expect(getSubAgentByName(one, undefined as never, "r")).rejects.toThrow(
      "undefined has no name",
    );
  });
});
