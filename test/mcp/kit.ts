/** What the MCP tests share: the protocol's reference server as a child, on either transport. */
import { spawn, type ChildProcess } from "node:child_process";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { createRequire } from "node:module";
import { startWatchdog } from "../../services/natsServer/Watchdog.ts";
import type { McpServersState } from "../../core/mcp/McpOffers.ts";
import { pollUntil } from "../kit/poll.ts";
import type { System, TestSocket } from "../system/kit.ts";

const EVERYTHING = createRequire(import.meta.url).resolve(
  "@modelcontextprotocol/server-everything/dist/index.js",
);

/** A port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = await listen(() => undefined);
  await server.close();
  return server.port;
}

export interface Everything {
  readonly url: string;
  /** SIGKILL, and waits for its end. */
  readonly stop: () => Promise<void>;
}

/** On a port that is given, it takes the place of one that was stopped. */
export async function startEverything(
  transport: "streamableHttp" | "sse",
  port?: number,
): Promise<Everything & { readonly port: number }> {
  const used = port ?? (await freePort());
  const child: ChildProcess = spawn(process.execPath, [EVERYTHING, transport], {
    env: { PATH: process.env["PATH"] ?? "", PORT: String(used) },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const watchdog = startWatchdog();
  if (child.pid !== undefined) watchdog.guard(child.pid);
  let told = "";
  child.stdout!.on("data", (text: Buffer) => (told += String(text)));
  child.stderr!.on("data", (text: Buffer) => (told += String(text)));
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  await pollUntil(
    `the ${transport} server listens`,
    () => /listening on port|running on port/.test(told) || { done: false, saw: told },
  );
  return {
    port: used,
    url: `http://127.0.0.1:${used}/${transport === "sse" ? "sse" : "mcp"}`,
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
      watchdog.release();
    },
  };
}

/** A server of the test's own, on this machine. */
export async function listen(listener: RequestListener) {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

let calls = 0;
/** Calls a method over the socket; rejects with the error's text. */
export async function rpc<A>(socket: TestSocket, method: string, ...args: unknown[]): Promise<A> {
  const id = `call-${++calls}`;
  socket.send({ type: "rpc", id, method, args });
  const reply = await pollUntil(
    `${method} is answered`,
    () => {
      const frames = socket.json as Array<Record<string, unknown>>;
      return frames.find((frame) => frame["type"] === "rpc" && frame["id"] === id) ?? { done: false, saw: frames.at(-1) }; // prettier-ignore
    },
    { intervalMs: 5 },
  );
  const { success, result, error } = reply as { success: boolean; result?: A; error?: string };
  if (!success) throw new Error(error);
  return result as A;
}

/** What the socket was told of MCP servers, in order. */
export const mcpFrames = (socket: TestSocket): McpServersState[] =>
  (socket.json as Array<{ type?: string; mcp?: McpServersState }>)
    .filter(({ type }) => type === "cf_agent_mcp_servers")
    .map(({ mcp }) => mcp!);

/** An agent of this host has hibernated. */
export const hibernated = (host: System["host"]): Promise<unknown> =>
  pollUntil("the agent hibernates", async () => {
    const now = await host.metrics.render();
    const count = /^agents_hibernations_total\S* (\d+)/m.exec(now)?.[1];
    return Number(count ?? 0) > 0 || { done: false, saw: now };
  });

/** The first frame of them that passes. */
export const untilMcp = (
  socket: TestSocket,
  what: string,
  test: (mcp: McpServersState) => boolean,
  from = 0,
): Promise<McpServersState> =>
  pollUntil<McpServersState>(what, () => {
    const frames = mcpFrames(socket).slice(from);
    const found = frames.find(test);
    if (found !== undefined) return found;
    return { done: false as const, saw: frames.map(({ servers }) => servers) };
  });
