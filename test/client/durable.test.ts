/** Our client and a durable stream: each chunk once and in order, whatever is lost. */
import { describe, expect, it } from "vitest";
import { AgentClient, agentFetch } from "../../services/client/index.ts";
import { ClientPool, standing } from "./clients.ts";
import { type FakePeer, until, useFakeServer } from "./FakeServer.ts";

const pool = new ClientPool({ AgentClient, agentFetch });
const server = useFakeServer(() => pool.close());

/** The `count`-th time that the client asked this peer for a stream. */
const asked = (peer: FakePeer, count = 1) => peer.stream(count);

/** Follows "answer", and keeps what it receives. */
function follow(client: AgentClient<unknown, unknown>, options: object = {}) {
  const got: string[] = [];
  const places: string[] = [];
  const ended = client.follow("answer", {
    onChunk: (chunk, place) => {
      got.push(chunk);
      places.push(place);
    },
    onRestart: () => got.push("|"),
    ...options,
  });
  ended.catch(() => undefined);
  return { got, places, ended };
}
const part = (peer: FakePeer, id: string, more: object): void =>
  peer.send({ type: "cf_agent_stream", id, key: "answer", ...more });

describe("a stream that a client follows", () => {
  it("continues across lost connections, with each chunk once", async () => {
    const client = pool.open({ host: server.host });
    const { got, places, ended } = follow(client);
    const first = await server.peer();
    const { id, key, since } = await asked(first);
    expect([key, since]).toEqual(["answer", undefined]);
    part(first, id, { seq: "s.2", chunks: ["a", "b"] });
    await until("two chunks", () => got.length === 2);
    first.drop();
    const second = await server.peer(2);
    expect(await asked(second)).toMatchObject({ id, key: "answer", since: "s.2" });
    // Sends what it already has again, as a new host would.
    part(second, id, { seq: "s.3", chunks: ["a", "b", "c"] });
    part(second, id, { seq: "s.4", chunks: ["d"], done: true, result: { words: 4 } });
    expect(await ended).toEqual({ words: 4 });
    expect(got.join("")).toBe("abcd");
    expect(places).toEqual(["s.1", "s.2", "s.3", "s.4"]);
  });

  it("requests lost frames again, also the last one", async () => {
    const client = pool.open({ host: server.host });
    const { got, ended } = follow(client);
    const peer = await server.peer();
    const { id } = await asked(peer);
    part(peer, id, { seq: "s.1", chunks: ["a"] });
    part(peer, id, { seq: "s.3", chunks: ["c"] });
    expect(await asked(peer, 2)).toMatchObject({ id, since: "s.1" });
    part(peer, id, { seq: "s.3", chunks: ["b", "c"] });
    part(peer, id, { seq: "s.4", chunks: [], done: true });
    expect(await asked(peer, 3)).toMatchObject({ id, since: "s.3" });
    part(peer, id, { seq: "s.4", chunks: ["d"], done: true });
    await ended;
    expect(got.join("")).toBe("abcd");
  });

  it("reports its position when the agent's next host asks", async () => {
    const client = pool.open({ host: server.host });
    const { got } = follow(client);
    const peer = await server.peer();
    const { id } = await asked(peer);
    part(peer, id, { seq: "s.1", chunks: ["a"] });
    await until("a chunk", () => got.length === 1);
    part(peer, id, { resume: true });
    expect(await asked(peer, 2)).toEqual({ type: "cf_agent_stream", id, key: "answer", since: "s.1" }); // prettier-ignore
  });

  it("starts over when the key now names another stream, and reports that", async () => {
    const client = pool.open({ host: server.host });
    const { got, ended } = follow(client);
    const peer = await server.peer();
    const { id } = await asked(peer);
    part(peer, id, { seq: "old.2", chunks: ["a", "b"] });
    part(peer, id, { seq: "new.1", chunks: ["c"], restart: true, done: true });
    await ended;
    expect(got.join("")).toBe("ab|c");
  });

  it("begins after the given position", async () => {
    const client = pool.open({ host: server.host });
    const { got, ended } = follow(client, { since: "s.2" });
    const peer = await server.peer();
    const { id, since } = await asked(peer);
    expect(since).toBe("s.2");
    part(peer, id, { seq: "s.3", chunks: ["c"], done: true });
    await ended;
    expect(got).toEqual(["c"]);
  });

  it("rejects when the stream fails, on its signal, and after a final close", async () => {
    const client = pool.open({ host: server.host });
    const failed = follow(client);
    const peer = await server.peer();
    part(peer, (await asked(peer)).id, { error: "the model is away" });
    await expect(failed.ended).rejects.toThrow("the model is away");
    const controller = new AbortController();
    const given = follow(client, { signal: controller.signal });
    const { id } = await asked(peer, 2);
    controller.abort(new Error("not needed"));
    await expect(given.ended).rejects.toThrow("not needed");
    expect(await asked(peer, 3)).toMatchObject({ id, cancel: true });
    const last = follow(client);
    await asked(peer, 4);
    peer.close(4001, "away");
    await expect(last.ended).rejects.toThrow("Connection closed");
    await expect(follow(client).ended).rejects.toThrow("Connection closed");
  });

  it("without followers is cancelled", async () => {
    pool.open({ host: server.host });
    const peer = await server.peer();
    part(peer, "old", { seq: "s.1", chunks: ["a"] });
    expect(await asked(peer)).toMatchObject({ id: "old", cancel: true });
  });
});

describe("a call that a durable stream answers", () => {
  it("resumes after a lost connection without calling its method again", async () => {
    const client = pool.open({ host: server.host });
    const got: unknown[] = [];
    const result = client.call("ask", ["why"], { stream: { onChunk: (...all: unknown[]) => got.push(...all) } }); // prettier-ignore
    const first = await server.peer();
    const { id } = await first.call();
    const place = (seq: string) => ({ stream: "answer", seq });
    first.reply(id, { success: true, result: "a", done: false, ...place("s.1") });
    await until("a chunk", () => got.length === 1);
    first.drop();
    const second = await server.peer(2);
    expect(await asked(second)).toMatchObject({ id, key: "answer", since: "s.1" });
    part(second, id, { seq: "s.2", chunks: ["b"], done: true, result: "whole" });
    expect(await result).toBe("whole");
    expect(got).toEqual(["a", "b"]);
    expect(second.received.some((text) => text.includes('"rpc"'))).toBe(false);
  });

  it("rejects with its connection before its first chunk, like any call", async () => {
    const client = pool.open({ host: server.host });
    const result = client.call("ask", [], { stream: {} });
    const peer = await server.peer();
    await peer.call();
    expect(await standing(result)).toBe("pending");
    peer.drop();
    await expect(result).rejects.toThrow("Connection closed");
  });
});

describe("kept broadcasts", () => {
  const kept = (peer: FakePeer, seq: string, message?: string, more: object = {}): void =>
    peer.send({
      type: "cf_agent_kept",
      seq,
      ...(message === undefined ? {} : { message }),
      ...more,
    });
  const placeOf = (peer: FakePeer): string | null =>
    new URL(peer.url, "http://x").searchParams.get("since");
  /** The places from which the client asked this peer to continue. */
  const askedFrom = (peer: FakePeer): string[] =>
    peer.received
      .map((text) => JSON.parse(text) as { type: string; since: string })
      .flatMap(({ type, since }) => (type === "cf_agent_kept" ? [since] : []));

  function listen(client: AgentClient<unknown, unknown>): unknown[] {
    const got: unknown[] = [];
    client.addEventListener("message", ({ data }) => {
      if (!String(data).includes("cf_agent")) got.push(data);
    });
    return got;
  }

  it("arrive as ordinary messages, and each connection continues where the last one ended", async () => {
    const client = pool.open({ host: server.host, query: { token: "t" } });
    const got = listen(client);
    const first = await server.peer();
    expect(placeOf(first)).toBe("");
    kept(first, "0.1", "one");
    kept(first, "0.1", "one");
    await until("a message", () => got.length === 1);
    first.drop();
    const second = await server.peer(2);
    expect(placeOf(second)).toBe("0.1");
    expect(new URL(second.url, "http://x").searchParams.get("token")).toBe("t");
    kept(second, "0.2", "two", { resent: true });
    kept(second, "0.4", "four", { resent: true });
    kept(second, "0.5", undefined, { end: true });
    kept(second, "0.6", "six");
    await until("all", () => got.length === 4);
    expect(got).toEqual(["one", "two", "four", "six"]);
    expect(askedFrom(second)).toEqual([]);
  });

  it("are requested again if they were lost", async () => {
    const client = pool.open({ host: server.host });
    const got = listen(client);
    const peer = await server.peer();
    kept(peer, "0.7", undefined, { end: true });
    kept(peer, "0.9", "nine");
    await until("a request", () => askedFrom(peer).length === 1);
    kept(peer, "0.8", "eight", { resent: true });
    kept(peer, "0.9", "nine", { resent: true });
    kept(peer, "0.9", undefined, { end: true });
    kept(peer, "0.11");
    await until("another", () => askedFrom(peer).length === 2);
    expect(askedFrom(peer)).toEqual(["0.7", "0.9"]);
    expect(got).toEqual(["eight", "nine"]);
  });

  it("are requested from the beginning by a reconnect before the first of them arrived", async () => {
    pool.open({ host: server.host });
    const first = await server.peer();
    first.identity();
    first.drop();
    const second = await server.peer(2);
    expect(placeOf(second)).toBe("0");
  });

  it("that have expired are reported, and the position is sent beside a query function's values", async () => {
    let missed = 0;
    const client = pool.open({
      host: server.host,
      query: async () => ({ token: "t" }),
      onMissed: () => missed++,
    });
    listen(client);
    const first = await server.peer();
    kept(first, "0.1", "one");
    kept(first, "0.9", undefined, { end: true, missed: true });
    await until("told", () => missed === 1);
    first.drop();
    expect(placeOf(await server.peer(2))).toBe("0.9");
  });

  it("leave an app's own parameter of that name unchanged", async () => {
    pool.open({ host: server.host, query: { since: "2024" } });
    expect(placeOf(await server.peer())).toBe("2024");
  });
});
