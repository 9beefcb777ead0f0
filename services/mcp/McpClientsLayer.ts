/**
 * The MCP client port (`core/mcp/McpClients`) on the official SDK. The SDK is loaded when the first server is
 * connected to: a process whose agents use none never has it in memory.
 */
import * as Layer from "effect/Layer";
import { McpClients, type McpClientsShape } from "../../core/mcp/McpClients.ts";
import { addressGuard, refusal } from "./addressGuard.ts";
import { guardedFetch, type FetchLike, type GuardedFetch } from "./guardedFetch.ts";

/** For tests that play the servers. */
export interface McpClientsOptions {
  /** In the place of the guarded one; the guard of URLs stays. */
  readonly fetch?: FetchLike;
  /** Told when the SDK begins to be loaded: work of the machine's time. */
  readonly onLoad?: (loading: Promise<unknown>) => void;
}

export function makeMcpClients({ fetch, onLoad }: McpClientsOptions = {}): McpClientsShape {
  const load = () => {
    const loading = import("./sdkConnection.ts");
    onLoad?.(loading);
    return loading;
  };
  const open = (server: string, broken: (message: string) => void): GuardedFetch => {
    const guard = addressGuard(new URL(server));
    if (fetch === undefined) return guardedFetch(guard, broken);
    return {
      fetch: async (url, init) => {
        guard.check(new URL(url));
        return fetch(url, init);
      },
      close: () => undefined,
    };
  };
  return {
    refusal,
    connect: async (options) => (await load()).connect(options, open),
    finishAuth: async (target, callback) => (await load()).finishAuth(target, callback, open),
  };
}

export const layer: Layer.Layer<McpClients> = Layer.succeed(McpClients, makeMcpClients());
