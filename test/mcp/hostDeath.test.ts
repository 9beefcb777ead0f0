/** A host with live MCP connections is killed (SIGKILL): the next one has the tools again. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { TestSocket } from "../system/kit.ts";
import { pollUntil } from "../kit/poll.ts";
import { Installation } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { rpc, startEverything, type Everything } from "./kit.ts";
import type { ToolAgent } from "./toolModule.ts";

const LEASE_TTL_MS = 5_000;

let installation: Installation;
let host: AgentsProcess;
let streamable: Everything;
let sse: Everything;
beforeAll(async () => {
  const module = fileURLToPath(new URL("./toolModule.ts", import.meta.url));
  [installation, streamable, sse] = await Promise.all([
    Installation.start({ shards: 2, leaseTtlMs: LEASE_TTL_MS, module }),
    startEverything("streamableHttp"),
    startEverything("sse"),
  ]);
  host = await installation.startHost("a", { args: ["--mcp-allow-loopback"] });
  await installation.shared(1);
});
afterAll(async () => {
  await Promise.all([streamable?.stop(), sse?.stop()]);
  await installation?.stop();
});

test("after a host dies, the servers are reconnected and their tools work", async () => {
  const url = `${installation.gateway.url}/agents/tool-agent/survivor`;
  const socket = await TestSocket.open(url);
  await rpc(socket, "add", "New", streamable.url, { id: "new" });
  await rpc(socket, "add", "Old", sse.url, { id: "old", transport: { type: "sse" } });
  const before = await rpc<ReturnType<ToolAgent["servers"]>>(socket, "servers");
  const rows = await rpc(socket, "rows");

  await host.kill();
  await installation.startHost("b", { args: ["--mcp-allow-loopback"] });
  await installation.shared(1);

  // A call that meets the dead host is lost with it: asked again until the new one answers.
  const after = await pollUntil("both are ready again", async () => {
    const again = await TestSocket.open(url);
    const mcp = await rpc<ReturnType<ToolAgent["servers"]>>(again, "waited");
    const states = Object.values(mcp.servers).map(({ state }) => state);
    return states.join() === "ready,ready" ? mcp : { done: false as const, saw: mcp.servers };
  });
  expect(after).toEqual(before);
  const again = await TestSocket.open(url);
  expect(await rpc(again, "rows")).toEqual(rows);
  for (const id of ["new", "old"])
    expect(await rpc(again, "call", id, "echo", { message: id })).toMatchObject({
      content: [{ text: `Echo: ${id}` }],
    });
});
