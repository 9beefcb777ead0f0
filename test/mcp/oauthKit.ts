/** What the tests of OAuth share: agents, a server that requires consent, and a user's browser. */
import { afterAll, afterEach, beforeAll } from "vitest";
import { callable } from "agents";
import { TestSocket, useSystems, type System } from "../system/kit.ts";
import { startOAuthServer } from "./OAuthServer.ts";
import { rpc, untilMcp } from "./kit.ts";
import { ToolAgent } from "./toolModule.ts";

export class OAuthAgent extends ToolAgent {
  static override options = { hibernateAfterSeconds: 30 };
  override onRequest() {
    return new Response("onRequest");
  }
  @callable()
  redirects(config: { successRedirect?: string; errorRedirect?: string }) {
    this.mcp.configureOAuthCallback(config);
  }
  @callable()
  abort() {
    this.ctx.abort("asked for");
  }
  /** As if that many seconds had passed since the authorizations began. */
  @callable()
  async age(seconds: number) {
    const { storage } = this.ctx;
    for (const [key, value] of await storage.list<{ createdMs: number }>())
      if (key.includes("/state/"))
        await storage.put(key, { ...value, createdMs: value.createdMs - seconds * 1000 });
  }
  @callable()
  async register(url: string, callbackUrl: string) {
    await this.mcp.registerServer("secrets", { url, name: "Secrets", callbackUrl });
    return this.mcp.connectToServer("secrets");
  }
  @callable()
  replaceBy(url: string) {
    return this.mcp.registerServer("secrets", { url, name: "Secrets" });
  }
  /** The rows of the servers, as a later wake reads them. */
  @callable()
  stored() {
    return this.sql`SELECT server_url, client_id, auth_url FROM cf_agents_mcp_servers`;
  }
  @callable()
  async closeIt() {
    await this.mcp.closeConnection("secrets");
  }
  /** Calls tools in one turn at the same time. Resolves to what became of each. */
  @callable()
  async calls(serverId: string, names: string[]) {
    const all = names.map((name) => this.mcp.callTool({ serverId, name, arguments: {} }));
    const settled = await Promise.allSettled(all);
    return settled.map((one) => (one.status === "fulfilled" ? one.value.content[0]?.["text"] : String(one.reason))); // prettier-ignore
  }
  /** Calls a method of a sub-agent. */
  @callable()
  async below(method: "add" | "keys" | "remove" | "servers", ...args: unknown[]) {
    const child = await this.subAgent(Child, "kid");
    return (child[method] as (...given: unknown[]) => unknown)(...args);
  }
}
class Child extends ToolAgent {}

export interface Added {
  readonly id: string;
  readonly state: string;
  readonly authUrl: string;
}

export type Servers = ReturnType<ToolAgent["servers"]>;

/** A browser that opens an address: what it receives. */
export const get = async (url: string) => {
  const response = await fetch(url, { redirect: "manual" });
  return {
    status: response.status,
    location: response.headers.get("location"),
    text: await response.text(),
  };
};

export const ready = (socket: TestSocket, from = 0) =>
  untilMcp(socket, "it is ready", ({ servers }) => servers["secrets"]?.state === "ready", from);

/** Starts both before the tests of the file. */
export function useOAuth() {
  const systems = useSystems();
  let system: System;
  let server: Awaited<ReturnType<typeof startOAuthServer>>;
  beforeAll(async () => {
    [system, server] = await Promise.all([
      systems.start({ agents: { OAuthAgent, Child } }),
      startOAuthServer(),
    ]);
  });
  afterEach(() => {
    server.open.clear();
    server.demands.always = false;
    server.provider.outage = 0;
    server.provider.held = undefined;
  });
  afterAll(async () => {
    await server?.stop();
  });
  const open = (name: string, host = system.url) =>
    TestSocket.open(`${host}/agents/o-auth-agent/${name}`);
  const add = (socket: TestSocket, options: object = {}) =>
    rpc<Added>(socket, "add", "Secrets", server.url, { id: "secrets", ...options });
  return {
    open,
    add,
    url: () => system.url,
    server: () => server,
    /** An agent whose server is ready, by the consent of its user. */
    consented: async (name: string) => {
      const socket = await open(name);
      const { authUrl } = await add(socket);
      const callback = await server.consent(authUrl);
      await get(callback);
      await ready(socket);
      return { socket, callback };
    },
  };
}
