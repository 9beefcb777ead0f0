import { describe, expect, it } from "vitest";
import { AGENT_MARK } from "../../services/module/LoadedModule.ts";
import { readModule } from "../../services/module/readModule.ts";

class Agent {
  static readonly [AGENT_MARK] = true;
}
class Repo extends Agent {}
class Team extends Agent {}
const route = (path: string, agent: string) => ({ path, agent, verifier: {}, entity: {} });

describe("the shape of a module", () => {
  it("every exported subclass of Agent is an agent, under its own name; Agent itself and other exports are not", () => {
    class Deep extends Repo {}
    const loaded = readModule({ Agent, Repo, Squad: Team, Deep, limit: 3, helper() {} }, "m.ts");
    expect([...loaded.agents]).toEqual([["Repo", Repo], ["Team", Team], ["Deep", Deep]]); // prettier-ignore
    expect(loaded).toMatchObject({ file: "m.ts", files: ["m.ts"], webhooks: [] });
    expect(loaded.fetch).toBeUndefined();
  });

  it("one class under two exports is one agent", () => {
    expect(readModule({ Repo, Alias: Repo }, "m.ts").agents.size).toBe(1);
  });

  it("handlers keep their object as this", () => {
    const main = {
      text: "hi",
      fetch() {
        return new Response(this.text);
      },
    };
    const { fetch } = readModule({ Repo, default: main }, "m.ts");
    const context = {
      waitUntil: () => {},
      passThroughOnException: () => {},
      props: {},
      routeAgentRequest: async () => null,
    };
    expect(fetch!(new Request("http://x/"), {}, context)).toBeInstanceOf(Response);
  });

  it("origins are normalized as browsers send them; anything else is refused with what to write", () => {
    const read = (allowedOrigins: unknown) =>
      readModule({ Repo, default: { allowedOrigins } }, "m.ts").allowedOrigins;
    expect(read(undefined)).toBeUndefined();
    expect(read("*")).toEqual(["*"]);
    expect(read(["https://app.example.com/", "http://LOCALHOST:5173"])).toEqual([
      "https://app.example.com",
      "http://localhost:5173",
    ]);
    for (const wrong of [
      "app.example.com",
      "https://a.example/path",
      "https://*.example",
      "",
      7,
      null,
      "file:///x",
    ])
      expect(() => read([wrong]), String(wrong)).toThrow(
        /allowedOrigins.*https:\/\/app\.example\.com/,
      );
  });

  it.each([
    [{ http: "Open" }, 'http is "Open": use "open", or leave it out'],
    [{ hibernat: false }, 'it has "hibernat", which nothing reads. Did you mean "hibernate"?'],
    [
      { hibernateAfterMs: 500 },
      'it has "hibernateAfterMs", which nothing reads. Did you mean "hibernateAfterSeconds"?',
    ],
    [{ cpuMs: 500 }, 'it has "cpuMs", which nothing reads. Did you mean "cpuSeconds"?'],
    [{ turnSecond: 5 }, 'it has "turnSecond", which nothing reads. Did you mean "turnSeconds"?'],
    [{ turnSeconds: -1 }, "turnSeconds is -1: use a number of seconds"],
    [{ cpuSeconds: "5" }, 'cpuSeconds is "5": use a number of seconds'],
    [{ keepAliveIntervalMs: NaN }, "keepAliveIntervalMs is NaN: use a number of milliseconds"],
    [{ queueMax: 0 }, "queueMax is 0: use a number above 0"],
    [{ stateBytesMax: "5" }, 'stateBytesMax is "5": use a number above 0'],
    [{ record: "yes" }, 'record is "yes": use true or false'],
    [{ retry: { attempts: 5 } }, 'retry: unknown option "attempts"'],
    [{ retry: { maxAttempts: 0 } }, "retry: maxAttempts must be >= 1"],
    [{ retry: { maxAttempts: "5" } }, "retry: maxAttempts must be an integer"],
    [{ retry: { baseDelayMs: 5_000 } }, "retry: baseDelayMs must be <= maxDelayMs"],
    [{ redact: ["a", ""] }, 'redact is ["a",""]: use a list of fields, like ["customer.email"'],
    [{ history: { days: -1 } }, "history has days -1"],
    ["open", "it must be an object"],
  ])("static options of %j are refused", (options, message) => {
    class Wrong extends Agent {
      static options = options as never;
    }
    expect(() => readModule({ Wrong }, "m.ts")).toThrow(`static options of Wrong: ${message}`);
  });

  it("static options of its own, and those that are undefined, are no fault", () => {
    class Right extends Agent {
      static options = { turnSeconds: 0, queueMax: Infinity, colour: 1, http: undefined } as never; // prettier-ignore
    }
    expect([...readModule({ Right }, "m.ts").agents.keys()]).toEqual(["Right"]);
  });

  it("routes are kept in their order", () => {
    const webhooks = [route("/webhooks/b", "Repo"), route("/webhooks/a", "Team")];
    expect(readModule({ Repo, Team, default: { webhooks } }, "m.ts").webhooks).toEqual(webhooks);
  });

  class Other extends Agent {}
  const Twin = Object.defineProperty(Other, "name", { value: "Repo" });
  const bad: ReadonlyArray<readonly [string, Record<string, unknown>, RegExp]> = [
    ["no agent class", { helper() {} }, /m\.ts: no agent class is exported[^]*extends Agent/],
    ["a class that is not an agent", { Plain: class Plain {} }, /no agent class is exported/],
    ["an agent in the default export", { default: { Team } }, /default export has the class Team. Export it itself/],
    ["an agent as the default export", { Repo, default: Team }, /default export is the agent class Team/],
    ["a class named as another's export", { Repo, Other: Twin, Two: Object.defineProperty(class extends Agent {}, "name", { value: "Other" }) }, /two agent classes are named Other.*rename/],
    ["two classes of one name in URLs", { FooBar: class FooBar extends Agent {}, FOO_BAR: class FOO_BAR extends Agent {} }, /FooBar and FOO_BAR are both foo-bar in URLs.*rename/],
    ["a default export that is a function", { Repo, default: () => {} }, /default export is a function/],
    ["fetch that is not a function", { Repo, default: { fetch: 1 } }, /"fetch" of the default export is not a function/],
    ["a misspelt key", { Repo, default: { webhook: [] } }, /has "webhook", which nothing reads. Did you mean "webhooks"/],
    ["webhooks that are no array", { Repo, default: { webhooks: {} } }, /"webhooks".*not an array/],
    ["a route built by hand", { Repo, default: { webhooks: [{ path: "/x" }] } }, /webhooks\[0\] is not a route/],
    ["a route to a class that is not exported", { Repo, default: { webhooks: [route("/w", "Nope")] } }, /webhooks\[0\] \(\/w\) sends to Nope.*Exported: Repo/],
    ["two routes of one path", { Repo, default: { webhooks: [route("/w", "Repo"), route("/w", "Repo")] } }, /two webhook routes have the path \/w/],
  ]; // prettier-ignore
  it("classes that share a name, as from a factory, and nameless ones are named by their exports", () => {
    const read = readModule({ Repo, Other: Twin, Anon: (() => class extends Agent {})() }, "m.ts");
    expect([...read.agents.keys()]).toEqual(["Repo", "Other", "Anon"]);
    expect(read.agents.get("Other")).toBe(Twin);
  });

  it("a module without an agent class may answer requests or mail", () => {
    expect(readModule({ default: { fetch: () => new Response() } }, "m.ts").agents.size).toBe(0);
    expect(readModule({ default: { email() {} } }, "m.ts").agents.size).toBe(0);
  });

  it("keys of the reference's platform and of frameworks are ignored", () => {
    const scheduled = {
      Repo,
      default: { fetch: () => new Response(), scheduled() {}, queue() {} },
    };
    expect(readModule(scheduled, "m.ts").fetch).toBeDefined();
    class Framework {
      fetchs = 1;
      fetch(): Response {
        return new Response();
      }
    }
    expect(readModule({ Repo, default: new Framework() }, "m.ts").fetch).toBeDefined();
  });

  it.each(bad)("%s is refused with the remedy", (_what, exports, message) => {
    expect(() => readModule(exports, "m.ts")).toThrowError(message);
  });
});
