/** A host with MCP sessions is killed: the SDK's client continues its session on the next. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { connectClient, eventsOf, INITIALIZE, post } from "./kit.ts";

const LEASE_TTL_MS = 5_000;

let installation: Installation;
let host: AgentsProcess;
let url: string;
beforeAll(async () => {
  const module = fileURLToPath(new URL("./counterModule.ts", import.meta.url));
  installation = await Installation.start({ shards: 2, leaseTtlMs: LEASE_TTL_MS, module });
  host = await installation.startHost("a");
  await installation.shared(1);
  url = `${installation.gateway.url}/mcp`;
});
afterAll(() => installation?.stop());

test("a session and its state survive the host; a call that was running there fails with an error", async () => {
  const { call, client, transport } = await connectClient(url, {
    answer: () => ({ action: "accept", content: { amount: 1 } }),
  });
  expect(await call("add", { amount: 40 })).toBe("40");
  const session = transport.sessionId;

  const begun = await post(url, INITIALIZE);
  const other = begun.headers.get("mcp-session-id")!;
  await eventsOf(begun);
  const hanging = await post(url, { jsonrpc: "2.0", id: "h", method: "tools/call", params: { name: "hang", arguments: {} } }, other); // prettier-ignore
  const [priming] = await eventsOf(hanging, (events) => events.length > 0);

  await host.kill();
  await installation.startHost("b");
  await installation.shared(1);

  // A request that meets the dead host is lost with it: asked again until the new one answers.
  const after = await pollUntil("the session goes on", async () => {
    try {
      return { done: true as const, value: await call("add", { amount: 1 }) };
    } catch (error) {
      return { done: false as const, saw: String(error) };
    }
  });
  expect(after).toBe("41");
  expect(transport.sessionId).toBe(session);
  expect(await call("ask")).toBe("accept: 42");
  await client.close();

  const resumed = await fetch(url, {
    headers: { accept: "text/event-stream", "mcp-session-id": other, "last-event-id": priming!.id! }, // prettier-ignore
  });
  const [answer] = await eventsOf(resumed);
  expect(JSON.parse(answer!.data)).toMatchObject({ id: "h", error: { code: -32603, message: expect.stringMatching(/host was lost/) } }); // prettier-ignore
});
