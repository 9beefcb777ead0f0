/** Calls of lost connections, and final closes (`protocol.md` §4.1, §13: 14), both clients. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ClientPool, CLIENTS, standing, type AnyClient } from "./clients.ts";
import { until, useFakeServer } from "./FakeServer.ts";

const server = useFakeServer();

const opened = (client: AnyClient) => until("it is open", () => client.readyState === 1);

describe.each(CLIENTS)("%s", (_name, kind) => {
  let pool: ClientPool;
  beforeEach(() => {
    pool = new ClientPool(kind);
  });
  afterEach(() => pool.close());

  it("a call that was sent rejects; one still buffered is sent on the next connection", async () => {
    const client = pool.open({ host: server.host });
    const peer = await server.peer();
    await opened(client);
    const onError = vi.fn();
    const lost = client.call("lost", [], { stream: { onError } });
    const rejected = expect(lost).rejects.toThrow("Connection closed");
    await peer.call();
    const closed = new Promise((resolve) => client.addEventListener("close", resolve));
    peer.drop();
    await closed;
    const kept = client.call("kept");
    await rejected;
    const next = await server.peer(2);
    const call = await next.call();
    expect(call.method).toBe("kept");
    next.reply(call.id, { success: true, result: "here", done: true });
    expect(await kept).toBe("here");
    expect(next.received).toHaveLength(1);
    expect(onError.mock.calls).toEqual([["Connection closed"]]);
  });
  it("a buffered call survives connections that never open", async () => {
    server.refuse = () => 503;
    const client = pool.open({ host: server.host });
    const kept = client.call("kept");
    await until("several were refused", () => server.refused >= 3);
    expect(await standing(kept)).toBe("pending");
    server.refuse = () => undefined;
    const peer = await server.peer();
    peer.reply((await peer.call()).id, { success: true, result: 1, done: true });
    expect(await kept).toBe(1);
  });
  it.each([1008, 4000, 4401, 4999])("close code %i is final", async (code) => {
    const onConnectionError = vi.fn();
    const client = pool.open({ host: server.host, onConnectionError });
    const peer = await server.peer();
    await opened(client);
    const lost = expect(client.call("lost")).rejects.toThrow("Connection closed");
    await peer.call();
    peer.close(code, "go away");
    await lost;
    await until("the end is told", () => onConnectionError.mock.calls.length === 1);
    expect(client.connectionError).toMatchObject({ code, reason: "go away" });
    expect(onConnectionError.mock.calls[0]![0]).toBe(client.connectionError);
    expect(client.shouldReconnect).toBe(false);
    await expect(client.call("later")).rejects.toThrow("Connection closed");
    expect(server.peers).toHaveLength(1);
  });
  it.each([1000, 1001, 1011, 1012, 1013, 3999])(
    "close code %i is not final: the client reconnects",
    async (code) => {
      const client = pool.open({ host: server.host });
      (await server.peer()).close(code);
      await server.peer(2);
      await opened(client);
      expect(client.connectionError).toBeNull();
    },
  );
  it("shouldReconnectOnClose may stop reconnecting", async () => {
    const codes: number[] = [];
    const shouldReconnectOnClose = ({ code }: { code: number }) => {
      codes.push(code);
      return code !== 1011;
    };
    const client = pool.open({ host: server.host, shouldReconnectOnClose });
    (await server.peer()).close(1012);
    (await server.peer(2)).close(1011);
    await until("the end is known", () => client.connectionError !== null);
    expect(client.connectionError).toMatchObject({ code: 1011 });
    expect(codes).toEqual([1012, 1011]);
  });
  it("after maxRetries the client stops, and pending calls reject", async () => {
    server.refuse = () => 401;
    const onConnectionError = vi.fn();
    const client = pool.open({ host: server.host, maxRetries: 2, onConnectionError });
    await expect(client.call("lost")).rejects.toThrow("Connection closed");
    expect(server.refused).toBe(3);
    expect(client.connectionError).not.toBeNull();
    expect(onConnectionError).toHaveBeenCalledTimes(1);
  });
  it("close() rejects pending calls, buffered or not, and is not an error", async () => {
    const client = pool.open({ host: server.host });
    await opened(client);
    const sent = client.call("sent");
    const peer = await server.peer();
    await peer.call();
    client.close();
    await expect(sent).rejects.toThrow("Connection closed");
    expect(client.connectionError).toBeNull();
    await until("the server saw it", () => peer.closed !== undefined);
    expect(peer.closed!.code).toBe(1000);
    expect(server.peers).toHaveLength(1);
  });
  it("after a final close, reconnect() starts over and clears the error once open", async () => {
    const client = pool.open({ host: server.host });
    (await server.peer()).close(4001);
    await until("the end is known", () => client.connectionError !== null);
    client.reconnect();
    const peer = await server.peer(2);
    await until("the error is gone", () => client.connectionError === null);
    const back = client.call("back");
    peer.reply((await peer.call()).id, { success: true, result: 1, done: true });
    expect(await back).toBe(1);
  });
});
