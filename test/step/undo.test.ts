/** The guarantees of `undo`, in one process and in virtual time. */
import { Suspects, type SuspectsAgent } from "../../core/input/Suspects.ts";
import { Unbegun } from "../../core/input/Unbegun.ts";
import { AgentImage } from "../../core/journal/AgentImage.ts";
import { agentId } from "../../schemas/Address.ts";
import { afterEach, beforeEach, expect, it } from "vitest";
import { Agent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { testAgents, type TestAgents } from "agents/testing";
import { makeLatch, type Latch } from "../system/kit.ts";

const SECRET = "s3cret";

/** Set by each test: what was called, and under which keys; what fails; what waits. */
let calls: string[] = [];
let keys = new Map<string, Set<string>>();
let fails = (_call: string, _nth: number): boolean => false;
let latches: Record<string, Latch> = {};

class Shop extends Agent<{}, { count: number }> {
  static override options = { http: "open", retry: { maxAttempts: 2, baseDelayMs: 10, maxDelayMs: 10 } }; // prettier-ignore
  override initialState = { count: 0 };

  override async onRequest(request: Request): Promise<Response> {
    const { queued } = (await request.json()) as { queued?: boolean };
    if (queued === true) await this.queue("order");
    else await this.order();
    return new Response("OK");
  }

  async order(): Promise<void> {
    this.count();
    await this.paid("reserve");
    this.count();
    await this.paid("charge");
    await this.step("send", (step) => this.call("send", step.key), { retry: { maxAttempts: 1 } });
    if (fails("the end", 0)) throw new Error("the end failed");
    this.count();
  }

  private async paid(name: string): Promise<void> {
    await this.step(name, (step) => this.call(name, step.key), {
      undo: (result, step) => this.call(`undo ${result}`, step.key),
    });
  }

  private async call(name: string, key: string): Promise<string> {
    calls.push(name);
    keys.set(name, (keys.get(name) ?? new Set()).add(key));
    await latches[name]?.opened;
    if (fails(name, calls.filter((call) => call === name).length)) throw new Error(`${name} failed`); // prettier-ignore
    return `the ${name}`;
  }

  private count(): void {
    this.setState({ count: this.state.count + 1 });
  }
}

let test: TestAgents;
beforeEach(async () => {
  [calls, keys, latches] = [[], new Map(), {}];
  fails = (call) => call === "send";
  test = await testAgents({
    agents: [Shop],
    webhooks: [
      webhook("/orders", {
        agent: Shop,
        verify: github({ secret: "SECRET" }),
        entity: body("for", slug),
      }),
    ],
    env: { SECRET },
  });
});
afterEach(() => test.close());

const agent = () => test.agent(Shop, "a");
const send = async (queued = false): Promise<void> => {
  const text = JSON.stringify({ for: "a", queued });
  await test.webhook("/orders", text, test.sign.github(text, SECRET, { id: "1" }));
  await test.settled();
};
const until = async (isSo: () => boolean): Promise<void> => {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
};
const UNDONE = ["undo the charge", "undo the reserve"];

it.each([false, true])(
  "a turn that finally fails undoes its steps in reverse order (a job: %s)",
  async (queued) => {
    await send(queued);
    expect(calls).toEqual(["reserve", "charge", "send", "send", ...UNDONE]);
    const [letter, ...others] = await agent().deadLetters();
    expect(letter?.reason).toBe("Error: send failed (undone: charge, reserve)");
    expect(others).toEqual([]);
  },
);

it("a turn that succeeds undoes nothing", async () => {
  fails = (call, nth) => call === "send" && nth === 1;
  await send();
  expect(calls).toEqual(["reserve", "charge", "send", "send"]);
  expect((await agent().state())?.count).toBe(5);
});

it("an undo that fails is retried, then reported, and the others run", async () => {
  fails = (call) => call === "send" || call === "undo the charge";
  await send();
  expect(calls.slice(4)).toEqual(["undo the charge", "undo the charge", "undo the reserve"]);
  expect((await agent().deadLetters())[0]?.reason).toBe(
    "Error: send failed (undone: reserve; the undo of charge failed: Error: undo the charge failed)",
  );
});

it.each(
  UNDONE.flatMap(
    (call) =>
      [
        [call, false],
        [call, true],
      ] as const,
  ),
)(
  "after a host ends in %s, each step is undone once, or under one key (a job: %s)",
  async (call, queued) => {
    latches[call] = makeLatch();
    void send(queued).catch(() => undefined);
    await until(() => calls.includes(call));
    await test.crash();
    delete latches[call];
    await test.revive();
    await test.settled();
    const own = UNDONE.indexOf(call);
    expect(calls).toEqual(["reserve", "charge", "send", "send", ...UNDONE.slice(0, own + 1), ...UNDONE.slice(own)]); // prettier-ignore
    for (const name of [...UNDONE, "send", "charge"]) expect(keys.get(name)?.size).toBe(1);
    expect((await agent().deadLetters()).map(({ reason }) => reason)).toEqual([
      "Error: send failed (undone: charge, reserve)",
    ]);
    // Two attempts, each with two writes.
    expect((await agent().state())?.count).toBe(4);
  },
);

it("once undoing has begun, the turn has failed, even if its steps would succeed by now", async () => {
  latches["undo the charge"] = makeLatch();
  void send().catch(() => undefined);
  await until(() => calls.includes("undo the charge"));
  await test.crash();
  delete latches["undo the charge"];
  fails = () => false;
  await test.revive();
  await test.settled();
  expect(calls.filter((call) => call === "send").length).toBe(2);
  expect((await agent().deadLetters()).length).toBe(1);
});

it.each([false, true])(
  "once undoing has begun, the turn has failed, even if its code succeeds by now (a job: %s)",
  async (queued) => {
    fails = (call) => call === "the end";
    latches["undo the charge"] = makeLatch();
    void send(queued).catch(() => undefined);
    await until(() => calls.includes("undo the charge"));
    await test.crash();
    delete latches["undo the charge"];
    fails = () => false;
    await test.revive();
    await test.settled();
    expect((await agent().deadLetters()).map(({ reason }) => reason)).toEqual([
      "Error: the end failed (undone: charge, reserve)",
    ]);
    expect(await agent().queue()).toEqual([]);
  },
);

it.each([false, true])(
  "an undo that repeatedly ends its host is eventually completed (a job: %s)",
  async (queued) => {
    latches["undo the charge"] = makeLatch();
    void send(queued).catch(() => undefined);
    for (let deaths = 1; deaths <= 6; deaths++) {
      await until(() => calls.filter((call) => call === "undo the charge").length === deaths);
      await test.crash();
      await test.revive();
    }
    await until(() => calls.filter((call) => call === "undo the charge").length === 7);
    latches["undo the charge"].open();
    await test.settled();
    expect((await agent().deadLetters()).map(({ reason }) => reason)).toEqual([
      "Error: send failed (undone: charge, reserve)",
    ]);
    expect(keys.get("undo the charge")?.size).toBe(1);
  },
);

it("a step that is still running when its turn fails is awaited, and undone", async () => {
  class Hasty extends Agent<{}, {}> {
    static override options = { http: "open", retry: { maxAttempts: 1 } };
    async go(): Promise<void> {
      const charge = this.step(
        "charge",
        () => latches["slow"]!.opened.then(() => calls.push("charge")),
        {
          undo: () => calls.push("undo the charge"),
        },
      );
      await Promise.all([charge, this.step("other", () => Promise.reject(new Error("no")))]);
    }
    async begin(): Promise<void> {
      await this.queue("go");
    }
  }
  latches["slow"] = makeLatch();
  await using other = await testAgents({ agents: [Hasty] });
  const hasty = other.agent(Hasty, "a");
  await hasty.begin();
  expect(JSON.stringify(await hasty.events())).toContain('"undoing"');
  latches["slow"].open();
  await other.settled();
  expect(calls).toEqual(["charge", "undo the charge"]);
  expect((await hasty.deadLetters())[0]?.reason).toBe("Error: no (undone: charge)");
});

it("a redrive after an undo has new idempotency keys", async () => {
  await send();
  fails = () => false;
  const [letter] = await agent().deadLetters();
  await test.redrive(letter!);
  expect(calls.slice(6)).toEqual(["reserve", "charge", "send"]);
  expect(keys.get("charge")?.size).toBe(2);
});

it("an undone input that its provider sends again has new idempotency keys", async () => {
  await send();
  await send();
  fails = () => false;
  await send();
  expect(calls.slice(-3)).toEqual(["reserve", "charge", "send"]);
  expect(keys.get("charge")?.size).toBe(3);
});

it("an undo can't write to its agent, and must be a function", async () => {
  class Careless extends Agent<{}, { count: number }> {
    static override options = { http: "open", retry: { maxAttempts: 1 } };
    override initialState = { count: 0 };
    async go(): Promise<void> {
      await this.step("a", () => 1, { undo: () => this.setState({ count: 5 }) });
      await this.step("b", () => 1, { undo: 3 as never });
    }
    async begin(): Promise<void> {
      await this.queue("go");
    }
  }
  await using other = await testAgents({ agents: [Careless] });
  const careless = other.agent(Careless, "a");
  await careless.begin();
  await other.settled();
  const [letter] = await careless.deadLetters();
  expect(letter?.reason).toContain('step "b": undo must be a function');
  expect(letter?.reason).toContain("the undo of a failed: StepWrites");
});

it("the dead letter of a turn whose hosts died repeatedly lists its completed steps", () => {
  const id = agentId("Shop", "one");
  const image = new AgentImage(id);
  image.steps = new Map([["input", new Map([["1:charge", "7"]])]]);
  const owner = { id, image } as unknown as SuspectsAgent;
  expect(new Suspects(owner, new Unbegun()).exhausted("input")).toMatch(
    /the last one did not end \(done, and not undone: 1:charge\)$/,
  );
});
