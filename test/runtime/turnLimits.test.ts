/** Turns that never end: their callers are answered, their input goes on, they write no more. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { Agent, callable, getCurrentAgent, getAgentByName } from "agents";
import { testAgents, type TestAgents } from "agents/testing";
import { body, unsigned, webhook } from "agents/webhooks";

/** Told by the agents' code, which goes on after its turn was given up. */
const heard: string[] = [];
/** Releases the code that waits, by what it does then. */
const latches = new Map<string, () => void>();
const never = (): Promise<never> => new Promise(() => undefined);
const held = (name: string): Promise<void> =>
  new Promise((resolve) => latches.set(name, () => resolve()));
const tell = async (what: string, f: () => unknown): Promise<void> => {
  try {
    await f();
    heard.push(`${what}: done`);
  } catch (error) {
    const { name, cause } = error as Error;
    heard.push(`${what}: ${((cause ?? { name }) as Error).name}`);
  }
};

interface State {
  readonly done: ReadonlyArray<string>;
}

class Stuck extends Agent<{ readonly Stuck: never }, State> {
  static override options = {
    http: "open",
    turnSeconds: 20,
    retry: { maxAttempts: 2, baseDelayMs: 10, maxDelayMs: 10 },
  };
  override initialState: State = { done: [] };

  override async onRequest(request: Request): Promise<Response> {
    const { how } = (await request.json()) as { how: string };
    this.setState({ done: [...this.state.done, `${how} ${getCurrentAgent().attempt}`] });
    getCurrentAgent().signal!.addEventListener("abort", () =>
      heard.push(`${how} aborted: ${(getCurrentAgent().signal!.reason as Error).name}`),
    );
    if (how === "never") await never();
    if (how === "zombie" && getCurrentAgent().attempt === 1) {
      await held("zombie");
      await tell("setState", () => this.setState({ done: ["zombie"] }));
      await tell("sql", () => this.sql`CREATE TABLE zombie (id)`);
      await tell("queue", () => this.queue("note", "zombie"));
      await tell("schedule", () => this.schedule(1, "note", "zombie"));
      await tell("stream", () => this.stream("zombie").write("zombie"));
      await tell("webhook", () => this.sendWebhook("https://example.com/zombie", {}));
      await tell("stub", async () =>
        (await getAgentByName<Stuck>(this.env.Stuck, "other")).note("of a zombie"),
      );
      await tell("destroy", () => this.destroy());
      heard.push("zombie ends");
      throw new Error("which nobody hears");
    }
    return new Response("OK");
  }

  @callable()
  note(what: string): void {
    this.setState({ done: [...this.state.done, what] });
  }
  @callable()
  async stay(): Promise<void> {
    getCurrentAgent().signal!.addEventListener("abort", () => heard.push("stay aborted"));
    await never();
  }
  async askStuck(): Promise<void> {
    const other = await getAgentByName<Stuck>(this.env.Stuck, "asked");
    await tell("the call", () => other.stay());
    await never();
  }
  async block(): Promise<void> {
    await this.ctx.blockConcurrencyWhile(never);
  }
  async enqueue(): Promise<void> {
    await this.queue("stayIn");
    await this.queue("note", "after it");
  }
  async stayIn(): Promise<void> {
    await never();
  }

  override async onError(error: unknown): Promise<void> {
    this.note(`onError: ${(error as Error).name}`);
    if (this.name === "errors") await never();
    throw error;
  }
}

class Patient extends Agent {
  static override options = { http: "open", turnSeconds: 0 };
  async begin(): Promise<void> {
    await this.queue("wait");
  }
  async wait(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 86_400_000));
    this.setState("a day later");
  }
}

const module = {
  Stuck,
  Patient,
  default: {
    webhooks: [
      webhook("/stuck", {
        agent: Stuck,
        verify: unsigned(),
        entity: body("agent", { trust: true }),
      }),
    ],
  },
};

let agents: TestAgents;
beforeEach(async () => {
  agents = await testAgents({ module });
});
const send = (agent: string, how: string) => agents.webhook("/stuck", { agent, how });
afterEach(async () => {
  heard.length = 0;
  await agents.close();
});

test("a webhook whose turn never ends is given up, retried, and dead with the reason", async () => {
  expect((await send("one", "never")).status).toBe(202);
  await agents.advance("19s");
  expect(heard).toEqual([]);
  await agents.advance("5m");
  const one = agents.agent(Stuck, "one");
  expect(await one.state()).toEqual({
    done: ["never 1", "onError: TurnTimedOut", "never 2", "onError: TurnTimedOut"],
  });
  expect(heard).toEqual(["never aborted: TurnTimedOut", "never aborted: TurnTimedOut"]);
  const [letter, ...others] = await one.deadLetters();
  expect(others).toEqual([]);
  expect(letter).toMatchObject({
    reason: expect.stringContaining("did not end within 20 s") as string,
  });
  expect(agents.logs.filter(({ message }) => message.includes("given up"))).toHaveLength(2);
  // It leaves memory: nothing of the two runs holds it.
  await agents.advance("2m");
  expect(one.isActive()).toBe(false);
});

test("code of an abandoned turn can write nothing more, and its agent continues", async () => {
  await send("two", "zombie");
  await agents.advance("2m");
  const two = agents.agent(Stuck, "two");
  const done = ["zombie 1", "onError: TurnTimedOut", "zombie 2"];
  expect(await two.state()).toEqual({ done });
  heard.length = 0;
  await send("two", "ok");
  latches.get("zombie")!();
  await agents.settled();
  const refused = ["setState", "sql", "queue", "schedule", "stream", "webhook", "stub", "destroy"];
  expect(heard).toEqual([...refused.map((what) => `${what}: TurnTimedOut`), "zombie ends"]);
  expect(await two.state()).toEqual({ done: [...done, "ok 1"] });
  expect(await two.queue()).toEqual([]);
  expect(await two.schedules()).toEqual([]);
  await expect(two.sql("SELECT * FROM zombie")).rejects.toThrow("no such table");
  expect(agents.sends()).toEqual([]);
});

test("a stub's call of an abandoned turn is cancelled: the other turn's signal aborts", async () => {
  const three = agents.agent(Stuck, "three");
  const asked = three.askStuck();
  await expect(asked).rejects.toMatchObject({ name: "TurnTimedOut" });
  expect(heard).toContain("stay aborted");
  expect(heard).toContain("the call: TurnTimedOut");
});

test("a caller of a method that never ends gets an error", async () => {
  await expect(agents.agent(Stuck, "four").stay()).rejects.toMatchObject({
    name: "TurnTimedOut",
    message: expect.stringContaining("turnSeconds") as string,
  });
});

test("a block that never ends blocks the agent's other turns no longer than a turn may take", async () => {
  const five = agents.agent(Stuck, "five");
  await expect(five.block()).rejects.toMatchObject({ name: "TurnTimedOut" });
  await five.note("after it");
  expect(await five.state()).toEqual({ done: ["after it"] });
});

test("a queue item that never ends is dead after its attempts, and the next one runs", async () => {
  const six = agents.agent(Stuck, "six");
  await six.enqueue();
  await agents.advance("5m");
  expect(await six.state()).toEqual({ done: ["onError: TurnTimedOut", "after it"] });
  expect(await six.deadLetters()).toHaveLength(1);
});

test("an onError that never ends is given up, too", async () => {
  await send("errors", "never");
  await agents.advance("10m");
  const errors = agents.agent(Stuck, "errors");
  expect(await errors.state()).toEqual({
    done: ["never 1", "onError: TurnTimedOut", "never 2", "onError: TurnTimedOut"],
  });
  expect(await errors.deadLetters()).toHaveLength(1);
});

test("a class may have no limit", async () => {
  const patient = agents.agent(Patient, "p");
  await patient.begin();
  await agents.advance("25h");
  expect(await patient.state()).toBe("a day later");
});
