/** `cloudflare:workers` in a user's module, loaded by the real loader in a process of its own. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  bindPlatform,
  env,
  exports,
  reseedPlatform,
} from "../../services/platform/bindPlatform.ts";
import { RpcTarget } from "../../core/rpcTarget/RpcTarget.ts";
import { WorkerEntrypoint } from "../../services/platform/WorkerEntrypoint.ts";
import { readModule } from "../../services/module/readModule.ts";
import { LoaderProcess } from "../module/LoaderProcess.ts";
import { tempFolder } from "../kit/tempFolder.ts";

describe.each(["source", "dist"] as const)(
  "a module that imports cloudflare:workers: %s",
  (mode) => {
    let loader: LoaderProcess;
    let folder: string;
    beforeAll(() => {
      loader = new LoaderProcess(mode);
      folder = tempFolder("platform").path;
    });
    afterAll(async () => {
      await loader.stop();
    });
    const load = async (text: string) => {
      const file = join(folder, `m${Math.round(performance.now() * 1000)}.ts`);
      writeFileSync(file, text);
      return { file, report: await loader.load(file) };
    };

    it("has env, exports, waitUntil and the base classes", async () => {
      const { report } = await load(
        `import { Agent } from "agents";
       import { env, exports, tracing, waitUntil } from "cloudflare:workers";
       import { DurableObject, RpcTarget, WorkerEntrypoint, WorkflowEntrypoint } from "cloudflare:workers";
       import { NonRetryableError } from "cloudflare:workflows";
       export class A extends Agent {
         static report() {
           const classes = [DurableObject, RpcTarget, WorkerEntrypoint, WorkflowEntrypoint, NonRetryableError];
           return [env, exports, tracing, waitUntil, ...classes].map((each) => typeof each).join();
         }
       }`,
      );
      expect(report.error).toBeUndefined();
      expect(report.value).toBe(["object,object,object", ...Array(6).fill("function")].join());
    });

    it("shares env with the process that loads it, also at its top level", async () => {
      const { report } = await load(
        `import { Agent } from "agents";
       import { env } from "cloudflare:workers";
       const early = env.SEEDED;
       export class A extends Agent { static report() { return [early, env.SEEDED]; } }`,
      );
      expect(report.value).toEqual(["seed", "seed"]);
    });

    it("shares one copy of an optional peer, its own, with the entries that need it", async () => {
      const peer = join(folder, "node_modules/@modelcontextprotocol/server");
      mkdirSync(peer, { recursive: true });
      writeFileSync(join(peer, "package.json"), `{ "type": "module", "exports": "./index.js" }`);
      writeFileSync(
        join(peer, "index.js"),
        `export const createMcpHandler = () => ({ notify: "the module's own" });
       export const hostHeaderValidationResponse = 0, localhostAllowedHostnames = 0;
       export const localhostAllowedOrigins = 0, originValidationResponse = 0;`,
      );
      const { report } = await load(
        `import { Agent } from "agents";
       import { createMcpHandler } from "agents/mcp/server";
       export class A extends Agent {
         static report() { return createMcpHandler(() => { throw 0; }).notify; }
       }`,
      );
      expect(report.error).toBeUndefined();
      expect(report.value).toBe("the module's own");
    });

    it("names the alternative for what is missing", async () => {
      const { file, report } = await load(
        `import { withEnv } from "cloudflare:workers";\nwithEnv({}, () => 1);`,
      );
      expect(report.error?.message).toBe(
        `${file}:1: "cloudflare:workers" has no withEnv here. Use the env that handlers and agents receive`,
      );
    });

    it("gets an error for another module of that platform, with the alternative", async () => {
      const { file, report } = await load(
        `import { connect } from "cloudflare:sockets";\nconnect();`,
      );
      expect(report.error?.message).toBe(
        `${file}: there is no "cloudflare:sockets" here. Use "node:net"`,
      );
    });
  },
);

describe("a WorkerEntrypoint", () => {
  class Greeter extends WorkerEntrypoint<{ GREETING: string }, { name?: string }> {
    greet(punctuation: string): string {
      return `${this.env.GREETING}, ${this.ctx.props.name ?? "all"}${punctuation}`;
    }
    fetch(request: Request): Response {
      return new Response(`${this.env.GREETING} ${new URL(request.url).pathname}`);
    }
  }
  const context = {
    waitUntil: () => {},
    passThroughOnException: () => {},
    props: {},
    routeAgentRequest: async () => null,
  };

  it("as the default export is instantiated for each request", async () => {
    const { fetch } = readModule({ default: Greeter }, "m.ts");
    const answer = await fetch!(new Request("http://x/a"), { GREETING: "Hello" }, context);
    expect(await answer.text()).toBe("Hello /a");
  });

  it("as a named export is available through exports, with props or without", async () => {
    const module = readModule({ Greeter, default: { fetch: () => new Response("x") } }, "m.ts");
    bindPlatform(module, { GREETING: "Good day" }, () => {});
    const greeter = exports["Greeter"] as { greet(p: string): Promise<string> } & ((o: object) => {
      greet(p: string): Promise<string>;
    });
    expect(await greeter.greet("!")).toBe("Good day, all!");
    expect(await greeter({ props: { name: "Ada" } }).greet("?")).toBe("Good day, Ada?");
    await expect((greeter as unknown as { no(): Promise<void> }).no()).rejects.toThrow(/Greeter has no method no/); // prettier-ignore
  });
});

describe("env", () => {
  it("is one object, which each binding updates", () => {
    const held = env;
    const module = readModule({ default: { fetch: () => new Response("x") } }, "m.ts");
    bindPlatform(module, { A: 1 }, () => {});
    expect({ ...held }).toEqual({ A: 1 });
    bindPlatform(module, { B: 2 }, () => {});
    expect({ ...held }).toEqual({ B: 2 });
  });
});

describe("an RpcTarget", () => {
  it("has no JSON value, and the error says how it is passed", () => {
    class Relay extends RpcTarget {}
    expect(() => JSON.stringify({ relay: new Relay() })).toThrow(/Relay is an RpcTarget.*by reference/s); // prettier-ignore
  });
});

it("new variables replace those of before, and leave bindings to the code that runs", () => {
  const bound = { OLD: "1", KEPT: "secret" };
  Object.defineProperty(bound, "Hidden", { value: "a namespace", enumerable: false });
  bindPlatform({ agents: new Map(), entrypoints: new Map() }, bound, () => undefined);
  reseedPlatform({ NEW: "2" }, { OLD: "1" });
  expect([{ ...env }, env["Hidden"]]).toEqual([{ KEPT: "secret", NEW: "2" }, "a namespace"]);
});
