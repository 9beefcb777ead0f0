/** What code of agents finds in a test as in a serving process: platform, errors, bodies. */
import { env, exports, WorkerEntrypoint } from "cloudflare:workers";
import { afterEach, expect, it } from "vitest";
import { Agent } from "agents";
import { testAgents, type TestAgents } from "agents/testing";

export class Sums extends WorkerEntrypoint {
  add(a: number, b: number): number {
    return a + b;
  }
}

export class PlatformAgent extends Agent {
  readonly seen: string[] = [];

  found(): ReadonlyArray<unknown> {
    const { SECRET, PlatformAgent: bound } = env as Record<string, unknown>;
    return [SECRET, typeof bound, Object.keys(exports).toSorted()];
  }

  async sum(): Promise<number> {
    return (exports as unknown as { Sums: Sums }).Sums.add(1, 2);
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.url.endsWith("rejects")) {
      void Promise.reject(new Error("nobody awaits"));
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    if (request.url.endsWith("later")) setTimeout(() => this.fail(), 1_000);
    return new Response("ok");
  }

  fail(): never {
    throw new Error("thrown in a timer");
  }

  override onError(error: unknown): void {
    this.seen.push((error as Error).message);
  }

  errors(): ReadonlyArray<string> {
    return this.seen;
  }
}

export class SlowBodyAgent extends Agent {
  override onRequest(): Response {
    const pieces = ["a", "b", "c"];
    const body = new ReadableStream<Uint8Array>({
      async pull(controller) {
        await new Promise((resolve) => setTimeout(resolve, 90_000));
        const piece = pieces.shift();
        if (piece === undefined) controller.close();
        else controller.enqueue(new TextEncoder().encode(piece));
      },
    });
    return new Response(body);
  }
}

const open: TestAgents[] = [];
async function start(secret = "s3cret"): Promise<TestAgents> {
  const module = { Sums, PlatformAgent, SlowBodyAgent };
  const test = await testAgents({ module, env: { SECRET: secret } });
  open.push(test);
  return test;
}
afterEach(async () => {
  for (const test of open.splice(0)) await test.close();
});

it("env and exports of cloudflare:workers are those of the installation, until it is closed", async () => {
  const test = await start();
  const agent = test.agent(PlatformAgent, "a");
  const exported = ["PlatformAgent", "SlowBodyAgent", "Sums"];
  expect(await agent.found()).toEqual(["s3cret", "object", exported]);
  expect(await agent.sum()).toBe(3);
  const other = await start("other");
  expect((await other.agent(PlatformAgent, "a").found())[0]).toBe("other");
  await other.close();
  expect((await agent.found())[0]).toBe("s3cret");
  await test.close();
  expect([Object.keys(env), Object.keys(exports)]).toEqual([[], []]);
});

it("a rejection that nobody handles fails the turn that it is from, and reaches onError", async () => {
  const test = await start();
  expect((await test.fetch("/agents/platform-agent/a/rejects")).status).toBe(500);
  const agent = test.agent(PlatformAgent, "a");
  expect(await agent.errors()).toEqual(["nobody awaits"]);
  const lines = test.logs.filter(({ message }) => message === "an error was not handled");
  expect(lines.map(({ fields }) => fields?.["failsItsTurn"])).toEqual([true]);
});

it("an error after the turn reaches onError, and not the test", async () => {
  const test = await start();
  expect((await test.fetch("/agents/platform-agent/a/later")).status).toBe(200);
  await test.advance("2 seconds");
  expect(await test.agent(PlatformAgent, "a").errors()).toEqual(["thrown in a timer"]);
});

it("an error of the test itself stays the runner's", async () => {
  await start();
  const seen: unknown[] = [];
  const runners = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.once("unhandledRejection", (error) => seen.push(error));
  void Promise.reject(new Error("of the test"));
  await new Promise((resolve) => setTimeout(resolve, 5));
  for (const listener of runners) process.on("unhandledRejection", listener);
  expect(seen).toEqual([new Error("of the test")]);
});

it("the body of a stub's fetch moves time while it is read", async () => {
  const test = await start();
  const response = await test.agent(SlowBodyAgent, "a").fetch("http://a/");
  expect(await response.text()).toBe("abc");
});
