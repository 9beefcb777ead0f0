/** The end of a connection without a close frame: the client ends, with all that waits. */
import { expect, it, vi } from "vitest";
import { AgentClient, agentFetch } from "../../services/client/index.ts";
import { ClientPool } from "./clients.ts";
import { until, useFakeServer } from "./FakeServer.ts";

const pool = new ClientPool({ AgentClient, agentFetch });
const server = useFakeServer(() => pool.close());

it("a query that rejects maxRetries times ends everything that waits", async () => {
  const onConnectionError = vi.fn();
  let mayAsk = false;
  const query = vi.fn(async () => {
    if (!mayAsk) throw new Error("no token");
    return {};
  });
  const client = pool.open({ host: server.host, maxRetries: 2, query, onConnectionError });
  const waiting = [
    client.call("a", [], { timeout: 0 }),
    client.call("b", [], { stream: {} }),
    client.follow("c"),
  ];
  await Promise.all(waiting.map((each) => expect(each).rejects.toThrow("Connection closed")));
  expect(query).toHaveBeenCalledTimes(3);
  expect(onConnectionError.mock.calls).toEqual([[client.connectionError]]);
  expect(client.connectionError).toMatchObject({ code: 1006, reason: "no token", wasClean: false });
  expect([client.readyState, client.shouldReconnect]).toEqual([client.CLOSED, false]);
  await expect(client.call("later")).rejects.toThrow("Connection closed");
  mayAsk = true;
  client.reconnect();
  await server.peer();
  await until("the error is gone", () => client.connectionError === null);
});

it("a query that rejects fewer times keeps calls, and one that rejects after close() ends nothing", async () => {
  const onConnectionError = vi.fn();
  const query = vi.fn<() => Promise<Record<string, string>>>().mockResolvedValue({});
  query.mockRejectedValueOnce(new Error("no token"));
  const client = pool.open({ host: server.host, maxRetries: 1, query, onConnectionError });
  const kept = client.call("kept");
  const peer = await server.peer();
  peer.reply((await peer.call()).id, { success: true, result: 1, done: true });
  expect(await kept).toBe(1);
  let refuse: ((error: Error) => void) | undefined;
  const late = () => new Promise<never>((_, reject) => (refuse = reject));
  const closed = pool.open({ host: server.host, maxRetries: 0, query: late, onConnectionError });
  await until("it asks", () => refuse !== undefined);
  closed.close();
  const failed = new Promise((resolve) => closed.addEventListener("error", resolve));
  refuse!(new Error("too late"));
  await failed;
  expect(closed.connectionError).toBeNull();
  expect(onConnectionError).not.toHaveBeenCalled();
});

it("after maxRetries refused connections, the error has 1006; a close of the server keeps its code", async () => {
  server.refuse = () => 401;
  const refused = pool.open({ host: server.host, maxRetries: 1 });
  await until("the end is known", () => refused.connectionError !== null);
  expect(refused.connectionError).toMatchObject({ code: 1006, reason: "", wasClean: false });
  server.refuse = () => undefined;
  const closed = pool.open({ host: server.host, maxRetries: 0 });
  (await server.peer()).close(1000, "done");
  await until("the end is known", () => closed.connectionError !== null);
  expect(closed.connectionError).toMatchObject({ code: 1000, reason: "done", wasClean: true });
});
