/** Wrong uses of `agents/testing`: an error names the mistake. */
import { afterEach, describe, expect, it } from "vitest";
import { Agent } from "agents";
import { sign, testAgents, type TestAgents, type TestAgentsOptions } from "agents/testing";
import { constant, unsigned, webhook } from "agents/webhooks";

const open: TestAgents[] = [];
async function start(options: object): Promise<TestAgents> {
  const test = await testAgents(options as TestAgentsOptions);
  open.push(test);
  return test;
}
afterEach(async () => {
  for (const test of open.splice(0)) await test.close();
});

class EchoAgent extends Agent {
  override onMessage(connection: { send(text: string): void }, message: string | ArrayBuffer) {
    connection.send(typeof message === "string" ? message : `${message.byteLength} bytes`);
  }
  override async onRequest(request: Request): Promise<Response> {
    return new Response(`${request.headers.get("content-type")}: ${await request.text()}`);
  }
  hello(): string {
    return "hello";
  }
}
class OtherAgent extends Agent {}

/** Classes of one name, as a factory makes them. */
const made = (text: string) =>
  class MadeAgent extends Agent {
    hello(): string {
      return text;
    }
  };

describe("testAgents", () => {
  it.each([
    [{ agents: [EchoAgent], envv: {} }, /unknown option "envv"; the options are agents, webhooks/],
    [undefined, /the options must be an object/],
    [{ agents: EchoAgent }, /agents is not a list of classes/],
    [{ agents: [EchoAgent, class Plain {}] }, /agents\[1\] is Plain, which is no agent class/],
    [{ agents: [EchoAgent, undefined] }, /agents\[1\] is undefined, no agent class/],
    [{ agents: [made("1"), made("2")] }, /agents\[1\] has the name of another class, MadeAgent/],
    [{ agents: [(() => class extends Agent {})()] }, /agents\[0\] has no name/],
    [{ module: EchoAgent }, /module is a function: pass all exports of the module/],
    [{ agents: [EchoAgent], now: "soon" }, /now is "soon": use a time/],
    [{ agents: [EchoAgent], seed: "x" }, /seed is "x": use a number/],
    [{ agents: [EchoAgent], url: "localhost:80" }, /url is "localhost:80": use a URL/],
    [{ agents: [EchoAgent], env: null }, /env is null/],
    [{ agents: [EchoAgent], outgoing: {} }, /outgoing must be a function/],
  ])("refuses %j", async (options, message) => {
    await expect(testAgents(options as never)).rejects.toThrow(message);
  });

  it("reaches classes of one name by the names of their exports, as a host does", async () => {
    const One = made("1");
    const Two = made("2");
    const test = await start({ module: { One, Two, Nameless: (() => class extends Agent {})() } });
    expect(await test.agent(One, "a").hello()).toBe("1");
    expect(await test.agent(Two, "a").hello()).toBe("2");
    expect((await test.connect(Two, "a")).identity).toEqual({ agent: "two", name: "a" });
  });
});

describe("a test's installation", () => {
  it("refuses a class that it does not have, and says which it has", async () => {
    const test = await start({ agents: [EchoAgent] });
    const none = /no agent class of this test. Its classes: EchoAgent/;
    expect(() => test.agent(OtherAgent, "a")).toThrow(none);
    expect(() => test.agent("EchoAgent" as never, "a")).toThrow(none);
    await expect(test.connect(undefined as never, "a")).rejects.toThrow(none);
    await expect(test.crashAt("before commit", OtherAgent, "a")).rejects.toThrow(none);
  });

  it("refuses a crash at a point that does not exist, and at a class without a name", async () => {
    const test = await start({ agents: [EchoAgent] });
    await expect(test.crashAt("before-commit" as never)).rejects.toThrow(
      'the point is "before-commit": use "before commit" or "after commit"',
    );
    await expect(test.crashAt("before commit", EchoAgent)).rejects.toThrow("name must be text");
  });

  it("refuses options of a connection and of a mail that it does not know", async () => {
    const test = await start({ agents: [EchoAgent], email: () => undefined });
    const options = { headres: {} } as never;
    await expect(test.connect(EchoAgent, "a", options)).rejects.toThrow('unknown option "headres"');
    const mail = { from: "a@b.c", too: "d@e.f" } as never;
    await expect(test.email(mail)).rejects.toThrow('email: unknown option "too"');
    await expect(test.email({ from: "a@b.c" } as never)).rejects.toThrow("pass the addresses");
    expect(() => test.answerOutgoing(undefined as never)).toThrow("must be a function");
  });

  it("sends a form and bytes as they are", async () => {
    const route = webhook("/hook", { agent: EchoAgent, verify: unsigned(), entity: constant("a") });
    const test = await start({ agents: [EchoAgent], webhooks: [route] });
    const form = await test.webhook("/hook", new URLSearchParams({ a: "1" }));
    expect(await form.text()).toBe("application/x-www-form-urlencoded;charset=UTF-8: a=1");
    const bytes = await test.webhook("/hook", new TextEncoder().encode("text").buffer);
    expect(await bytes.text()).toBe("application/json: text");
    const client = await test.connect(EchoAgent, "a");
    client.send(new Uint8Array(3).buffer);
    client.send(new DataView(new ArrayBuffer(4), 1));
    await test.settled();
    expect(client.messages).toEqual(["3 bytes", "3 bytes"]);
    expect(() => client.send(undefined)).toThrow("can't be of type undefined");
  });

  it("replays lines of a history, and nothing else", async () => {
    const test = await start({ agents: [EchoAgent] });
    const agent = test.agent(EchoAgent, "a");
    await expect(agent.replay('[{"seq":1}]' as never)).rejects.toThrow("the history is no list");
    const lines = [{ seq: 1, cause: { kind: "start" } }, { order: 7 }];
    await expect(agent.replay(lines as never)).rejects.toThrow(
      "history[1] is no line of a history: pass the lines of",
    );
  });
});

it("an object is not signed: its text is what is sent", () => {
  expect(() => sign.github({ action: "opened" } as never, "s")).toThrow(
    "sign.github: the body is of type object: sign the text or the bytes that are sent",
  );
});
