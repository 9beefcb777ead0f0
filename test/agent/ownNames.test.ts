/** Members of a class with the name of a method or field that only our base class has. */
import { expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";

interface Env {
  readonly Diary: { getByName(name: string): Record<string, (...args: unknown[]) => unknown> };
}

/** As JavaScript has it: the types refuse a method with another signature. */
const Untyped = Agent as unknown as new () => object;

class Diary extends Untyped {
  log(line: string) {
    return `logged ${line}`;
  }
  step(n: number) {
    return `stepped ${n}`;
  }
  stream() {
    return "streamed";
  }
  approval() {
    return `approved, ${this.log("it")}`;
  }
  onRequest() {
    throw new RangeError("no page");
  }
}

const opened = async () => {
  const rig = await testAgents({ agents: [Diary as never] });
  return { rig, diary: (rig.env as unknown as Env).Diary.getByName("d") };
};

test("are called by stubs, and hooks and methods of the base class are not", async () => {
  const { rig, diary } = await opened();
  await using _ = rig;
  expect(await diary["log"]!("x")).toBe("logged x");
  expect(await diary["step"]!(1)).toBe("stepped 1");
  expect(await diary["stream"]!()).toBe("streamed");
  expect(await diary["approval"]!()).toBe("approved, logged it");
  for (const name of ["onRequest", "onStart", "spend", "sql"])
    await expect(diary[name]!()).rejects.toThrow(`Method ${name} is not callable`);
});

test("do not hide the agent's log from the runtime: an error of a hook is logged", async () => {
  const { rig } = await opened();
  await using _ = rig;
  expect((await rig.fetch("/agents/diary/d")).status).toBe(500);
  const lines = rig.logs.filter(({ message }) => message === "an error in the agent's code");
  expect(lines.map(({ fields }) => String(fields?.["error"]))).toEqual([
    expect.stringMatching(/^RangeError: no page/),
  ]);
});

class Counted extends Untyped {
  get initialState() {
    return { count: 3 };
  }
  read() {
    return Reflect.get(this, "state") as unknown;
  }
}

test("a getter initialState is the initial state", async () => {
  await using rig = await testAgents({ agents: [Counted as never] });
  const counted = (rig.env as unknown as { Counted: Env["Diary"] }).Counted.getByName("c");
  expect(await counted["read"]!()).toEqual({ count: 3 });
});
