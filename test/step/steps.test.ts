/** The guarantees of `this.step`, in virtual time: results are kept, writes apply once. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Agent, StepNotDurable, StepWrites, type Step } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import { testAgents, type TestAgents } from "agents/testing";
import { makeLatch } from "../system/kit.ts";
import { StepCalls } from "./StepCalls.ts";

const SECRET = "s3cret";

interface State {
  readonly count: number;
  readonly told: ReadonlyArray<unknown>;
}

type Work = (agent: Worker, step: (name: string) => Promise<string>) => Promise<unknown>;

/** Set by each test: what its agent does for each order, and how often each step's function ran. */
let work: Record<string, Work> = {};
let { calls, keys, latches, run: runStep } = new StepCalls();

class Worker extends Agent<{}, State> {
  static override options = {
    http: "open",
    retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 10 },
  };
  override initialState: State = { count: 0, told: [] };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS rows (id TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.peek());
    const { run } = (await request.json()) as { run: string };
    const told = await work[run]!(this, (name) => this.step(name, (step) => runStep(name, step)));
    return Response.json(told ?? null);
  }

  async job(run: string): Promise<void> {
    await work[run]!(this, (name) => this.step(name, (step) => runStep(name, step)));
  }

  peek(): { readonly state: State; readonly rows: ReadonlyArray<string> } {
    return {
      state: this.state,
      rows: this.sql<{ id: string }>`SELECT id FROM rows`.map(({ id }) => id),
    };
  }

  count(): void {
    this.setState({ ...this.state, count: this.state.count + 1 });
  }
  row(id: string): void {
    this.sql`INSERT INTO rows VALUES (${id})`;
  }
}

let test: TestAgents;
beforeEach(async () => {
  work = {};
  ({ calls, keys, latches, run: runStep } = new StepCalls());
  const route = webhook("/work", {
    agent: Worker,
    verify: github({ secret: "SECRET" }),
    entity: body("for", slug),
  });
  test = await testAgents({ agents: [Worker], webhooks: [route], env: { SECRET } });
});
afterEach(() => test.close());

const send = (run: string, id?: string): Promise<Response> => {
  const text = JSON.stringify({ for: "a", run });
  return test.webhook(
    "/work",
    text,
    test.sign.github(text, SECRET, id === undefined ? {} : { id }),
  );
};
const agent = () => test.agent(Worker, "a");
const calledOnce = (name: string): Promise<void> => until(() => calls.includes(name));
async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve));
}

async function crashIn(step: string, run = "it"): Promise<void> {
  latches[step] = makeLatch();
  void send(run).catch(() => undefined);
  await calledOnce(step);
  await test.crash();
  delete latches[step];
  await test.revive();
  await test.settled();
}

it("a step without await that outlives its turn is reported, as its result is lost", async () => {
  work["it"] = async (_worker, step) => void step("late");
  latches["late"] = makeLatch();
  await send("it");
  latches["late"].open();
  const reports = () => test.logs.filter(({ message }) => message.startsWith("a step ended after"));
  await until(() => reports().length > 0);
  expect(reports()).toMatchObject([{ level: "warn", fields: { step: "late", turn: "webhook" } }]);
});

describe("a completed step", () => {
  it("is not run again when its turn's host ends: its stored result is returned", async () => {
    work["it"] = async (worker, step) => {
      const told = [await step("one"), await step("two"), await step("two"), await step("three")];
      worker.setState({ ...worker.state, told });
    };
    await crashIn("three");
    expect((await agent().state())?.told).toEqual(["one 1", "two 1", "two 2", "three 2"]);
    expect(calls).toEqual(["one", "two", "two", "three", "three"]);
  });

  it("has one idempotency key in all of its attempts, shared with no other step", async () => {
    work["it"] = async (_worker, step) => [await step("one"), await step("one")];
    latches["one"] = makeLatch();
    void send("it", "7").catch(() => undefined);
    await calledOnce("one");
    await test.crash();
    delete latches["one"];
    await test.revive();
    await test.settled();
    expect(keys).toEqual([
      "Worker/a/github%3A7/1%3Aone",
      "Worker/a/github%3A7/1%3Aone",
      "Worker/a/github%3A7/2%3Aone",
    ]);
  });

  it("is in its agent's history, and is forgotten when its turn is done", async () => {
    work["it"] = async (_worker, step) => step("one");
    expect(await (await send("it")).json()).toBe("one 1");
    const [line, end] = (await agent().events()).filter(({ cause }) => cause.kind === "webhook");
    expect(line).toMatchObject({ begun: true, steps: [{ key: "1:one", result: "one 1" }] });
    expect(end).toHaveProperty("done");
    expect(await (await send("it")).json()).toBe("one 2");
  });

  it("stays completed when its turn fails and is retried", async () => {
    let attempts = 0;
    work["it"] = async (worker, step) => {
      const told = await step("one");
      if (++attempts < 3) throw new Error("as ordered");
      worker.setState({ ...worker.state, told: [told] });
    };
    await send("it");
    await test.settled();
    expect((await agent().state())?.told).toEqual(["one 1"]);
    expect([attempts, calls]).toEqual([3, ["one"]]);
  });

  it("is kept for jobs too, and among concurrent steps", async () => {
    work["queue"] = async (worker) => void (await worker.queue("job", "it"));
    work["it"] = async (worker, step) => {
      const told = await Promise.all([step("one"), step("one"), step("two")]);
      worker.setState({ ...worker.state, told });
    };
    latches["two"] = makeLatch();
    await send("queue");
    await calledOnce("two");
    await test.crash();
    delete latches["two"];
    await test.revive();
    await test.settled();
    expect((await agent().state())?.told).toEqual(["one 1", "one 2", "two 2"]);
  });
});

describe("a turn's writes outside its steps", () => {
  beforeEach(() => {
    work["it"] = async (worker, step) => {
      const id = crypto.randomUUID();
      worker.row(`before ${id}`);
      worker.count();
      await step("one");
      worker.count();
      worker.row(`between ${id}`);
      await step("two");
      worker.row(`after ${id}`);
      worker.count();
    };
    work["other"] = async (worker) => {
      worker.row("other");
      worker.count();
    };
  });
  /** All rows of one run have that run's id. */
  const expectOneRun = async (others: number): Promise<void> => {
    const { state, rows } = await agent().peek();
    const own = rows.filter((row) => row !== "other").map((row) => row.split(" "));
    expect(own.map(([when]) => when)).toEqual(["before", "between", "after"]);
    expect(new Set(own.map(([, id]) => id)).size).toBe(1);
    expect(rows.length - own.length).toBe(others);
    expect(state.count).toBe(3 + others);
  };

  it.each(["one", "two"])("apply once if the host ends in the step %s", async (step) => {
    await crashIn(step);
    await expectOneRun(0);
    expect((await agent().events()).some(({ undone }) => undone === true)).toBe(true);
  });

  it.each(["one", "two"])("apply once if the host ends twice in the step %s", async (step) => {
    latches[step] = makeLatch();
    void send("it").catch(() => undefined);
    await calledOnce(step);
    await test.crash();
    const before = calls.length;
    await test.revive();
    await until(() => calls.length > before && calls.at(-1) === step);
    await test.crash();
    delete latches[step];
    await test.revive();
    await test.settled();
    await expectOneRun(0);
  });

  it.each(["one", "two"])(
    "apply once if the host ends in the step %s, with concurrent turns",
    async (step) => {
      await send("other");
      latches[step] = makeLatch();
      void send("it").catch(() => undefined);
      await calledOnce(step);
      void send("other").catch(() => undefined);
      void send("other").catch(() => undefined);
      await test.crash();
      delete latches[step];
      await test.revive();
      await test.settled();
      await expectOneRun(3);
    },
  );

  it("are visible to clients before a step, while the step runs", async () => {
    latches["one"] = makeLatch();
    void send("it").catch(() => undefined);
    await calledOnce("one");
    expect((await agent().state())?.count).toBe(1);
    latches["one"].open();
    await test.settled();
    await expectOneRun(0);
  });

  it("delay another turn's writes until the end of a turn that has written and is in a step, and no longer", async () => {
    latches["one"] = makeLatch();
    void send("it").catch(() => undefined);
    await calledOnce("one");
    void send("other").catch(() => undefined);
    expect((await agent().state())?.count).toBe(1);
    latches["one"].open();
    await test.settled();
    await expectOneRun(1);
  });
});

describe("a turn that has not written", () => {
  it("delays no other turn while it is in a step", async () => {
    work["it"] = async (worker, step) => {
      await step("one");
      worker.count();
    };
    work["other"] = async (worker) => worker.count();
    latches["one"] = makeLatch();
    void send("it").catch(() => undefined);
    await calledOnce("one");
    await send("other");
    expect((await agent().state())?.count).toBe(1);
    latches["one"].open();
    await test.settled();
    expect((await agent().state())?.count).toBe(2);
  });
});

const thrower = (): never => {
  throw new Error("no");
};

describe("a step is refused with the reason", () => {
  it("outside durable turns", async () => {
    class Caller extends Agent {
      async go(): Promise<unknown> {
        return this.step("one", () => 1).catch((error: unknown) => [
          error instanceof StepNotDurable,
          String(error),
        ]);
      }
    }
    await using other = await testAgents({ agents: [Caller] });
    expect(await other.agent(Caller, "a").go()).toEqual([
      true,
      expect.stringContaining('step "one": a turn of this kind (rpc) does not run again'),
    ]);
  });

  const failureOf = async (f: (worker: Worker) => Promise<unknown>): Promise<unknown> => {
    let thrown: unknown;
    work["it"] = async (worker) => {
      try {
        await f(worker);
      } catch (error) {
        thrown = error;
      }
    };
    await send("it");
    return thrown;
  };

  it.each([
    ["the state", (worker: Worker) => worker.count()],
    ["SQL", (worker: Worker) => worker.row("x")],
    ["the queue", (worker: Worker) => worker.queue("job", "it")],
    ["a schedule", (worker: Worker) => worker.schedule(10, "job", "it")],
    ["a webhook", (worker: Worker) => worker.sendWebhook("https://example.com/", {})],
  ])("when its function writes to %s, and nothing is written", async (_what, write) => {
    const error = (await failureOf((worker) =>
      worker.step("one", () => write(worker) as never),
    )) as Error;
    expect(error instanceof StepWrites || error.cause instanceof StepWrites).toBe(true);
    expect(await agent().peek()).toEqual({ state: { count: 0, told: [] }, rows: [] });
    expect(await agent().queue()).toEqual([]);
  });

  it.each([
    ["a Map", () => new Map(), 'the result of step "one" is of type Map'],
    ["a function", () => ({ f: () => 1 }), 'the result of step "one": .f is a function'],
    ["a bigint", () => 1n, 'the result of step "one" is a bigint'],
    ["what throws when it is read", () => ({ toJSON: thrower }), 'the result of step "one": no'],
  ])("when it returns %s, at once", async (_what, f, message) => {
    let ran = 0;
    const error = await failureOf((worker) =>
      worker.step("one", () => {
        ran++;
        return f() as unknown;
      }),
    );
    expect(String(error)).toContain(message);
    expect(ran).toBe(1);
  });

  it.each([
    ["no name", () => ["", () => 1, {}]],
    ["no function", () => ["one", 1, {}]],
    ["an option that there is not", () => ["one", () => 1, { retries: 3 }]],
    ["an option of retry that there is not", () => ["one", () => 1, { retry: { attempts: 3 } }]],
    ["options that are none", () => ["one", () => 1, null]],
    ["a timeout that is no span of time", () => ["one", () => 1, { timeout: "soon" }]],
    ["a retry policy out of range", () => ["one", () => 1, { retry: { maxAttempts: 0 } }]],
  ])("with %s", async (_what, args) => {
    const error = await failureOf((worker) =>
      (worker.step as (...all: unknown[]) => Promise<unknown>).apply(worker, args()),
    );
    expect(String(error)).toMatch(/step/);
  });
});

describe("a step that fails", () => {
  it("is retried by the policy, with one key, and its last error is the turn's", async () => {
    const seen: string[] = [];
    work["it"] = (worker) =>
      worker.step("one", ({ key, attempt }) => {
        seen.push(`${attempt} ${key}`);
        if (attempt < 3) throw new Error("not yet");
        return "done";
      });
    expect(await (await send("it", "9")).json()).toBe("done");
    expect(seen).toEqual([1, 2, 3].map((n) => `${n} Worker/a/github%3A9/1%3Aone`));
  });

  it("is not tried again after an error named NonRetryableError, of a class or of another agent", async () => {
    const seen: string[] = [];
    class NonRetryableError extends Error {}
    const named = Object.assign(new Error("never"), { name: "NonRetryableError" });
    work["it"] = async (worker) => {
      for (const error of [new NonRetryableError("no"), named])
        await worker
          .step("one", ({ attempt }) => {
            seen.push(`${error.message} ${attempt}`);
            throw error;
          })
          .catch(() => undefined);
    };
    await send("it");
    expect(seen).toEqual(["no 1", "never 1"]);
  });

  it("that takes too long is abandoned, and its signal fires", async () => {
    let aborted = false;
    work["it"] = async (worker) => {
      const hangs = ({ signal }: Step): Promise<never> =>
        new Promise(() => signal.addEventListener("abort", () => (aborted = true)));
      await worker
        .step("one", hangs, { timeout: "2 seconds", retry: { maxAttempts: 1 } })
        .catch((error: unknown) => worker.setState({ ...worker.state, told: [String(error)] }));
    };
    await send("it");
    await test.settled();
    expect((await agent().state())?.told).toEqual([
      'StepTimedOut: step "one" took more than 2000 ms (its timeout)',
    ]);
    expect(aborted).toBe(true);
  });
});

it("code that repeats a step of its failed turn in a loop does not hold the thread", async () => {
  let loops = 0;
  const begun = makeLatch();
  work["it"] = async (worker) => {
    const fails = () => Promise.reject(new Error("no"));
    const poll = async (): Promise<void> => {
      // The loop would hold the test's thread.
      while (++loops < 1_000) {
        if (loops === 3) begun.open();
        await worker.step("poll", fails, { retry: { maxAttempts: 1 } }).catch(() => undefined);
      }
    };
    await Promise.all([poll(), begun.opened.then(fails)]);
  };
  await send("it");
  await test.advance("1 minute");
  expect(loops).toBeLessThan(1_000);
});

it("a sub-agent that an interrupted turn created stays listed, even if the turn's next run fails", async () => {
  work["it"] = async (worker, step) => {
    if (calls.length > 0) throw new Error("no");
    worker.count();
    await worker.subAgent(Worker, "below");
    await step("one");
  };
  await crashIn("one");
  expect(await agent().state()).toBeUndefined();
  expect(await agent().sql("SELECT name FROM cf_agents_sub_agents")).toEqual([{ name: "below" }]);
});

describe("a durable stream that a step's function writes", () => {
  it("is kept when the step is done, even if its turn's own writes are undone", async () => {
    work["it"] = async (worker, step) => {
      worker.count();
      await worker.step("stream", () => {
        calls.push("stream");
        const stream = worker.stream("answer");
        stream.write("one");
        stream.write("two");
        stream.end("whole");
      });
      worker.count();
      await step("two");
    };
    await crashIn("two");
    expect(calls).toEqual(["stream", "two", "two"]);
    expect((await agent().state())?.count).toBe(2);
    expect(await agent().sql("SELECT status, result FROM cf_agents_streams")).toEqual([
      { status: "ended", result: '"whole"' },
    ]);
    expect(await agent().sql("SELECT chunks FROM cf_agents_stream_chunks")).toEqual([
      { chunks: '["one","two"]' },
    ]);
  });
});

it("a step's result is stored while other turns' writes wait for the end of its turn", async () => {
  work["it"] = async (worker, step) => {
    worker.count();
    await step("one");
    await step("two");
    worker.count();
  };
  work["other"] = async (worker) => worker.count();
  latches["one"] = makeLatch();
  latches["two"] = makeLatch();
  void send("it").catch(() => undefined);
  await calledOnce("one");
  void send("other").catch(() => undefined);
  await agent().events();
  latches["one"].open();
  await calledOnce("two");
  const steps = (await agent().events()).flatMap((line) => line.steps ?? []);
  expect(steps).toEqual([{ key: "1:one", result: "one 1" }]);
  latches["two"].open();
  await test.settled();
  expect((await agent().state())?.count).toBe(3);
});

describe("a turn with unusual steps", () => {
  it("begins at most a thousand, in sequence or concurrently", async () => {
    const outcomes = async (asked: Promise<unknown>[]): Promise<string[]> =>
      (await Promise.allSettled(asked)).map((each) =>
        each.status === "fulfilled" ? "done" : (each.reason as Error).name,
      );
    work["it"] = async (worker, step) => {
      const told = await outcomes(Array.from({ length: 10_000 }, () => step("one")));
      const count = (what: string): number => told.filter((each) => each === what).length;
      worker.setState({ ...worker.state, told: [count("done"), count("StepTooLarge")] });
    };
    await send("it");
    await test.settled();
    expect((await agent().state())?.told).toEqual([1_000, 9_000]);
    expect(calls).toHaveLength(1_000);
  });

  it.each(["a>1:b", "'; --", "__proto__", "\u0000\n", "\ud800", "undoing", "undo 1:one"])(
    "distinguishes each by its name: %j",
    async (name) => {
      work["it"] = async (worker, step) => {
        const told = [
          await worker.step("a", async () => worker.step("b", () => "within")),
          await worker.step(name, () => "odd"),
          await step("last"),
        ];
        worker.setState({ ...worker.state, told });
      };
      await crashIn("last");
      expect((await agent().state())?.told).toEqual(["within", "odd", "last 2"]);
    },
  );

  it("gets an error if it ended before a step that it did not await", async () => {
    let late: Promise<unknown> = Promise.resolve();
    const ended = makeLatch();
    work["it"] = async (_worker, step) => {
      late = ended.opened.then(() => step("one"));
      late.catch(() => undefined);
    };
    await send("it");
    ended.open();
    await expect(late).rejects.toThrow("its turn (webhook) has ended without waiting for it");
    expect(calls).toEqual([]);
  });

  it("keeps results up to the limit per turn", async () => {
    work["it"] = async (worker) => {
      let made = 0;
      const large = "x".repeat(15 * 1024 * 1024);
      for (let n = 0; n < 5; n++) await worker.step("large", () => (made++, large));
      const refused = await worker.step("one", () => made++).catch((error: Error) => error.name);
      worker.setState({ ...worker.state, told: [made, refused] });
    };
    await send("it");
    await test.settled();
    expect((await agent().state())?.told).toEqual([5, "StepTooLarge"]);
  });
});
