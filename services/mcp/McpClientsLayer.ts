/**
 * The MCP client port (`core/mcp/McpClients`) on the official SDK. The SDK is loaded for the first
 * connection, so a process whose agents use no MCP server never has it in memory.
 */
import * as Layer from "effect/Layer";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { errorText } from "../../core/mcp/errorText.ts";
import { McpClients, type McpClientsShape } from "../../core/mcp/McpClients.ts";
import { addressGuard, refusal } from "./addressGuard.ts";
import { guardedFetch, type FetchLike, type GuardedFetch, type Wire } from "./guardedFetch.ts";

interface McpClientsOptions {
  /** Servers may be on this machine. Whoever may name a server can then reach every port of it. */
  readonly allowLoopback: boolean;
  /** Receives the reason why a server can't be connected to, which the client does not. */
  readonly log: LogShape;
  /** Replaces the guarded `fetch`, for tests that play the servers. URLs are still checked. */
  readonly fetch?: FetchLike;
  /** Called when loading of the SDK begins, which takes the machine's time. */
  readonly onLoad?: (loading: Promise<unknown>) => void;
}

export function makeMcpClients(options: McpClientsOptions): McpClientsShape {
  const { log, fetch, onLoad } = options;
  const load = () => {
    const loading = import("./sdkConnection.ts");
    onLoad?.(loading);
    return loading;
  };
  const open = (server: string, broken: (message: string) => void): GuardedFetch => {
    const guard = addressGuard(new URL(server), options);
    if (fetch === undefined) return guardedFetch(guard, broken);
    return {
      fetch: async (url, init) => {
        guard.check(new URL(url));
        return fetch(url, init);
      },
      close: () => undefined,
    };
  };
  const refused = (href: string): string | undefined => refusal(href, options);
  const wire: Wire = {
    open,
    unreachable: (server, why) =>
      log.warn("an MCP server can't be connected to", {
        server: new URL(server).origin,
        why: errorText(why),
      }),
  };
  return {
    refusal: refused,
    connect: async (asked) => {
      const why = refused(asked.url);
      if (why !== undefined) return { _tag: "Failed", message: `Blocked URL: ${why}` };
      return (await load()).connect(asked, wire);
    },
    finishAuth: async (target, callback) => (await load()).finishAuth(target, callback, wire),
  };
}

export const layer = (options: McpClientsOptions): Layer.Layer<McpClients> =>
  Layer.succeed(McpClients, makeMcpClients(options));
