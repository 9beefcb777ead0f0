/** What our client does beyond the reference's, and what the entry adds to a page's bundle. */
import { readFileSync } from "node:fs";
import { posix } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it, vi } from "vitest";
import { AgentClient, agentFetch } from "../../services/client/index.ts";
import { importsOf } from "../tidy/layering.ts";
import { sourceFile } from "../tidy/SourceFile.ts";
import { ClientPool, standing } from "./clients.ts";
import { until, useFakeServer } from "./FakeServer.ts";

const pool = new ClientPool({ AgentClient, agentFetch });
const server = useFakeServer(() => {
  pool.close();
  vi.unstubAllGlobals();
});

describe("AgentClient", () => {
  it("without a WebSocket implementation, the error says what to pass", () => {
    vi.stubGlobal("WebSocket", undefined);
    const make = () => new AgentClient({ agent: "RoomAgent", host: server.host });
    expect(make).toThrow(/no global WebSocket.*option WebSocket/);
  });
  it("created closed, needs no WebSocket before reconnect()", () => {
    vi.stubGlobal("WebSocket", undefined);
    const client = new AgentClient({ agent: "RoomAgent", host: server.host, startClosed: true });
    expect(() => client.reconnect()).toThrow(/no global WebSocket/);
  });
  it("options without an agent or a host are errors that name the option", () => {
    const options = { agent: "RoomAgent", host: server.host };
    expect(() => new AgentClient(undefined as never)).toThrow(/"agent" is missing/);
    expect(() => new AgentClient({ ...options, host: "" })).toThrow(/"host" is missing/);
    expect(() => new AgentClient({ ...options, agent: "" })).toThrow(/"agent" is missing/);
  });
  it("a name that is no text is an error that says so", () => {
    const options = { agent: "RoomAgent", host: server.host, name: 5 as never };
    expect(() => new AgentClient(options)).toThrow(/"name" must be text, not number/);
  });
  it("what a frame can't have is refused, and nothing is sent", async () => {
    const client = pool.open({ host: server.host });
    const peer = await server.peer();
    const call = client.call as (...given: unknown[]) => Promise<unknown>;
    const options = { timeout: 50 };
    await expect(call("add", 1, options)).rejects.toThrow(/arguments of add must be an array/);
    await expect(call(undefined, [], options)).rejects.toThrow(/method must be its name/);
    for (const key of [5, null, "", "k".repeat(256)])
      await expect(call("pay", [1], { ...options, key })).rejects.toThrow(/key of a call must be/);
    const read = AbortSignal.timeout(50);
    await expect(client.follow(undefined as never, { signal: read })).rejects.toThrow(
      /key of the stream must be text/,
    );
    const asked = client.call("asked");
    peer.reply((await peer.call()).id, { success: true, result: 1, done: true });
    expect(await asked).toBe(1);
    expect(peer.received).toHaveLength(1);
  });
  it("created closed, keeps calls for the first connection", async () => {
    const client = pool.open({ host: server.host, startClosed: true });
    const early = client.call("early");
    expect(await standing(early)).toBe("pending");
    client.reconnect();
    const peer = await server.peer();
    peer.reply((await peer.call()).id, { success: true, result: 1, done: true });
    expect(await early).toBe(1);
  });
  it("a call that rejects while it waits for a connection is never sent, and none is cancelled", async () => {
    const client = pool.open({ host: server.host, startClosed: true });
    const ended = new AbortController();
    const aborted = client.call("aborted", [], { signal: ended.signal });
    const timedOut = client.call("timedOut", [], { timeout: 5 });
    const closed = client.call("closed");
    ended.abort(new Error("not wanted"));
    await expect(aborted).rejects.toThrow("not wanted");
    await expect(timedOut).rejects.toThrow("timed out");
    client.send('"kept"');
    client.close();
    await expect(closed).rejects.toThrow("Connection closed");
    client.reconnect();
    const asked = client.call("asked");
    const peer = await server.peer();
    peer.reply((await peer.call()).id, { success: true, result: 1, done: true });
    expect(await asked).toBe(1);
    expect(peer.received).toEqual(['"kept"', expect.stringContaining("asked")]);
  });
  it("a call after close() rejects at once", async () => {
    const client = pool.open({ host: server.host });
    client.close();
    await expect(client.call("later")).rejects.toThrow("Connection closed");
  });
  it("a call that does not fit the send buffer rejects at once", async () => {
    const client = pool.open({ host: server.host, startClosed: true, maxEnqueuedMessages: 1 });
    const kept = client.call("kept");
    await expect(client.call("lost")).rejects.toThrow("RPC call to lost was dropped");
    expect(await standing(kept)).toBe("pending");
    client.reconnect();
    const peer = await server.peer();
    peer.reply((await peer.call()).id, { success: true, done: true });
    await kept;
  });
  it.each([Infinity, 2 ** 31])("a call may have a timeout of %d ms", async (timeout) => {
    const client = pool.open({ host: server.host });
    const long = client.call("long", [], { timeout });
    const peer = await server.peer();
    const { id } = await peer.call();
    await expect(client.call("slow", [], { timeout: 5 })).rejects.toThrow("timed out");
    peer.reply(id, { success: true, result: 1, done: true });
    expect(await long).toBe(1);
  });
  it("arguments that JSON can't carry reject the call and send nothing", async () => {
    const client = pool.open({ host: server.host });
    await expect(client.call("big", [1n])).rejects.toThrow(/BigInt/);
  });
  it("reconnect() with an application close code reconnects", async () => {
    const client = pool.open({ host: server.host });
    const peer = await server.peer();
    await until("it is open", () => client.readyState === 1);
    client.reconnect(4000, "again");
    await server.peer(2);
    await until("the server saw the code", () => peer.closed?.code === 4000);
    expect(client.connectionError).toBeNull();
  });
  it("keeps the journal sequence of the latest state that carries one", async () => {
    const client = pool.open({ host: server.host });
    expect(client.seq).toBeUndefined();
    const peer = await server.peer();
    peer.state({ n: 1 }, { seq: 7 });
    await until("the sequence is here", () => client.seq === 7);
    peer.drop();
    const next = await server.peer(2);
    expect(client.seq).toBe(7);
    next.state({ n: 2 }, { seq: 9 });
    await until("the next is here", () => client.seq === 9);
  });
  it("ignores a state older than the current one, except a new connection's first", async () => {
    const onStateUpdate = vi.fn();
    const client = pool.open({ host: server.host, onStateUpdate });
    const peer = await server.peer();
    peer.state("new", { seq: 9 });
    peer.state("old", { seq: 8 });
    peer.state("newer", { seq: 10 });
    await until("the newest is here", () => client.state === "newer");
    peer.drop();
    (await server.peer(2)).state("restored", { seq: 3 });
    await until("the restored one is here", () => client.seq === 3);
    expect(onStateUpdate.mock.calls.map(([state]) => state)).toEqual(["new", "newer", "restored"]);
  });
  it.each(["blob", "arraybuffer"] as const)(
    "kept bytes arrive as binaryType (%s) says, like plain ones",
    async (binaryType) => {
      const client = pool.open({ host: server.host });
      client.binaryType = binaryType;
      const seen: Array<Blob | ArrayBuffer> = [];
      client.addEventListener("message", ({ data }) => {
        if (typeof data !== "string") seen.push(data as Blob | ArrayBuffer);
      });
      const peer = await server.peer();
      peer.send(new Uint8Array([1, 2]));
      peer.send({ type: "cf_agent_kept", seq: "a.1", data: "AQI=" });
      await until("both are here", () => seen.length === 2);
      expect(seen[1]!.constructor.name).toBe(seen[0]!.constructor.name);
      const bytes = await new Response(seen[1]).arrayBuffer();
      expect([...new Uint8Array(bytes)]).toEqual([1, 2]);
    },
  );
  it("malformed protocol frames are ignored", async () => {
    const client = pool.open({ host: server.host });
    const peer = await server.peer();
    for (const frame of [
      '{"type":"rpc"}',
      '{"type":"cf_agent_identity"}',
      '["type"]',
      '"type"',
      '{"type":',
      new Uint8Array([1, 2]),
    ])
      peer.send(frame);
    peer.identity();
    await client.ready;
    expect(client.name).toBe("default");
  });
});

describe("agents/client and agents/react", () => {
  it.each([
    ["client", ["partysocket"]],
    ["react", ["partysocket", "react"]],
  ])("%s imports %j and nothing else, and nothing of the server", (entry, packages) => {
    const { files, outside } = reach(`services/${entry}/index.ts`);
    expect([...outside].toSorted()).toEqual(packages);
    for (const file of files) expect(file).toMatch(/^(?:services\/(?:client|react)|schemas)\//);
  });
});

/** Everything that an entry imports at run time, and what those import. */
function reach(entry: string): { files: Set<string>; outside: Set<string> } {
  const root = fileURLToPath(new URL("../..", import.meta.url));
  const [files, outside] = [new Set([entry]), new Set<string>()];
  for (const path of files)
    for (const { specifier, target } of importsOf(
      sourceFile(path, readFileSync(root + path, "utf8")),
    ))
      if (target === undefined) outside.add(specifier);
      else files.add(posix.normalize(target));
  return { files, outside };
}
