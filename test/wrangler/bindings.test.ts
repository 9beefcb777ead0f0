import { describe, expect, it } from "vitest";
import type { CallClient } from "../../core/call/CallClient.ts";
import { Agent } from "../../services/agent/index.ts";
import { Access } from "../../services/gateway/Access.ts";
import { bindEnv } from "../../services/module/bindEnv.ts";
import { gatewayModule } from "../../services/module/gatewayModule.ts";
import { readModule } from "../../services/module/readModule.ts";
import { body, github, webhook } from "../../services/webhooks/index.ts";

class PayAgent extends Agent {}
const wrangler = {
  vars: { MODE: "file", LIMIT: 3 },
  bindings: new Map([
    ["MY_TILL", "PayAgent"],
    ["NOWHERE", "Missing"],
  ]),
  mailBindings: [],
  loaders: ["LOADER", "MODE"],
};
const reached = () => {
  throw new Error("reached");
};
const envOf = (variables: Record<string, unknown> = {}) =>
  bindEnv(variables, ["PayAgent"], () => ({ call: reached }) as unknown as CallClient, undefined, wrangler); // prettier-ignore
const accessOf = (webhooks: ReadonlyArray<unknown>): Access => {
  const module = readModule({ PayAgent, default: { webhooks } }, "m.ts");
  const log = { debug() {}, info() {}, warn() {}, error() {} };
  return new Access({ config: {}, module: () => gatewayModule(module, envOf()), log } as never);
};
const request = (): Request => new Request("http://localhost/agents/my-till/one");

describe("bindings of the configuration file", () => {
  it("are additional names of the class; one of a missing class is ignored", () => {
    const env = envOf();
    expect(env["MY_TILL"]).toBe(env["PayAgent"]);
    expect(env["NOWHERE"]).toBeUndefined();
  });

  it("are overridden by variables of the process", () => {
    expect(envOf({ MODE: "process" })).toMatchObject({ MODE: "process", LIMIT: 3 });
  });

  it("of worker loaders throw when used, and say what to use; a variable overrides them", () => {
    const env = envOf();
    const loader = env["LOADER"] as { load(code: object): unknown; get(id: string): unknown };
    expect(() => loader.load({})).toThrow(/^LOADER\.load\(\) is not available here: .*a container/);
    expect(() => loader.get("a")).toThrow(/^LOADER\.get\(\) is not available here/);
    expect(env["MODE"]).toBe("file");
  });

  it("route to the class", async () => {
    await expect(accessOf([]).routeAgentRequest(request())).rejects.toThrow("reached");
  });

  it("do not open a class that its signed webhooks close", async () => {
    const verify = github({ secret: "SECRET" });
    const route = webhook("/w", { agent: PayAgent, verify, entity: body("id") });
    expect((await accessOf([route]).routeAgentRequest(request()))!.status).toBe(403);
  });
});
