/** Durable streams: readers receive each chunk once and in order, in virtual time. */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Agent, callable, type StreamingResponse } from "agents";
import { testAgents, type TestAgents, type TestClient } from "agents/testing";

/** What the writer waits for between chunks; set by each test. */
let pause: () => Promise<void> = async () => undefined;
const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms));

class Writer extends Agent<unknown, { readonly runs: number }> {
  static override options = { http: "open" };
  override initialState = { runs: 0 };

  async begin(key: string, words: ReadonlyArray<string>): Promise<void> {
    await this.queue("answer", { key, words });
  }
  /** A model's answer, which goes on from what is there. */
  async answer({ key, words }: { key: string; words: ReadonlyArray<string> }): Promise<void> {
    runs++;
    const stream = this.stream(key);
    if (stream.isOver) return;
    for (const word of words.slice(stream.sequence)) {
      stream.write(word);
      await pause();
    }
    stream.end({ words: stream.sequence, text: stream.text });
  }
  put(key: string, ...chunks: ReadonlyArray<string>): number {
    const stream = this.stream(key, { keep: "1 minute" });
    for (const chunk of chunks) stream.write(chunk);
    return stream.sequence;
  }
  finish(key: string, how: "end" | "fail" | "remove", with_?: string): boolean {
    return this.stream(key)[how](with_ as never);
  }
  see(key: string) {
    const { status, sequence, text, result, error, isOver } = this.stream(key);
    return { status, sequence, text, result, error, isOver };
  }
  after(key: string, sequence: number): unknown[] {
    return this.stream(key).chunks(sequence);
  }
  /** What throws, and as what. */
  refusal(key: string, options: object, chunk: unknown): string {
    try {
      this.stream<unknown>(key, options).write(chunk);
      return "none";
    } catch (error) {
      return String(error);
    }
  }
  shown(): number {
    return this.getSchedules().length;
  }
  rows(): number {
    return this.sql`SELECT * FROM cf_agents_stream_chunks`.length;
  }
  many(count: number, ended: boolean): void {
    for (let n = 0; n < count; n++) {
      this.stream(`many ${n}`).write("x");
      if (ended) this.stream(`many ${n}`).end();
    }
  }
  /** Begins one stream again, and others, in one commit. */
  again(key: string, ...others: ReadonlyArray<string>): void {
    this.stream(key).remove();
    for (const each of [key, ...others]) this.stream(each).write("again");
  }
  putRolledBack(key: string): void {
    try {
      this.ctx.storage.transactionSync(() => {
        this.put(key, "one");
        throw new Error("rolled back");
      });
    } catch {
      // The turn continues.
    }
  }
  count(): number {
    return this.sql`SELECT key FROM cf_agents_streams`.length;
  }
  override async onRequest(request: Request): Promise<Response> {
    const key = new URL(request.url).searchParams.get("key") ?? "a";
    return this.stream(key).response(request, { waitMs: 1000, headers: { "x-own": "yes" } });
  }
  @callable({ streaming: true })
  watch(response: StreamingResponse, key: string): void {
    response.follow(this.stream(key));
  }
  override shouldConnectionReadStream(_connection: unknown, key: string): boolean {
    return key !== "private";
  }
}
let runs = 0;

let test: TestAgents;
beforeEach(async () => {
  runs = 0;
  pause = async () => undefined;
  test = await testAgents({ agents: [Writer] });
});
afterEach(() => test.close());

const WORDS = Array.from({ length: 30 }, (_, n) => `w${n} `);
const TEXT = WORDS.join("");
const writer = (name = "a") => test.agent(Writer, name);
const events = async (name = "a"): Promise<number> => (await writer(name).events()).length;

/** What a client of a socket has of one stream, as its frames say. */
function partsOf(client: TestClient, id = "r1") {
  const frames = client.ofType("cf_agent_stream").filter((frame) => frame["id"] === id);
  const chunks = frames.flatMap((frame) => (frame["chunks"] as string[] | undefined) ?? []);
  const last = frames.findLast((frame) => frame["seq"] !== undefined);
  return { frames, text: chunks.join(""), seq: last?.["seq"] as string | undefined };
}
/** The events of a response, parsed. */
async function eventsOf(response: Response) {
  const text = await response.text();
  return text
    .split("\n\n")
    .filter((block) => block !== "" && !block.startsWith(":"))
    .map((block) => {
      const fields = Object.fromEntries(
        block
          .split("\n")
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 2)]),
      ) as Record<string, string>;
      return {
        id: fields["id"],
        event: fields["event"] ?? "message",
        data: JSON.parse(fields["data"]!) as unknown,
      };
    });
}
const textOf = (all: Awaited<ReturnType<typeof eventsOf>>): string =>
  all.flatMap(({ event, data }) => (event === "message" ? [data] : [])).join("");

describe("a writer", () => {
  it("can read back what it wrote, also after its agent was evicted", async () => {
    const agent = writer();
    expect(await agent.see("a")).toMatchObject({ status: "absent", sequence: 0, text: "" });
    expect(await agent.put("a", "one ", "two ")).toBe(2);
    await test.advance("5 minutes");
    await agent.put("b", "x");
    expect(await agent.see("b")).toMatchObject({ status: "open", sequence: 1, text: "x" });
    expect(await agent.finish("b", "end", "done")).toBe(true);
    expect(await agent.finish("b", "fail", "late")).toBe(false);
    expect(await agent.see("b")).toMatchObject({ status: "ended", result: "done", isOver: true });
  });

  it("stores many chunks in few events", async () => {
    pause = () => sleep(10);
    await writer().begin(
      "a",
      Array.from({ length: 300 }, () => "word "),
    );
    await test.settled();
    const stored = await events();
    // 3 s at ten a second, and the queue's own.
    expect(stored).toBeLessThan(45);
    expect(stored).toBeGreaterThan(20);
    expect(await writer().see("a")).toMatchObject({ sequence: 300, status: "ended" });
    expect(await writer().after("a", 298)).toEqual(["word ", "word "]);
  });

  it("that runs again after a crash continues from its last stored chunk", async () => {
    pause = () => sleep(50);
    await writer().begin("a", WORDS);
    for (let n = 0; n < 3; n++) {
      await test.advance(400);
      await test.crash();
      await test.revive();
    }
    await test.settled();
    expect(runs).toBeGreaterThan(3);
    expect(await writer().see("a")).toEqual({
      status: "ended",
      sequence: WORDS.length,
      text: TEXT,
      result: { words: WORDS.length, text: TEXT },
      isOver: true,
    });
  });

  it.each([
    ["before commit", 0],
    ["before commit", 700],
    ["before commit", 1480],
    ["after commit", 0],
    ["after commit", 700],
    ["after commit", 1480],
  ] as const)(
    "loses and repeats nothing when its host is lost %s, %i ms later",
    async (point, ms) => {
      pause = () => sleep(50);
      await writer().begin("a", WORDS);
      await test.advance(ms);
      const crashed = test.crashAt(point, Writer, "a");
      await test.advance("1 second");
      await crashed;
      await test.revive();
      await test.settled();
      expect(await writer().see("a")).toMatchObject({ status: "ended", text: TEXT });
    },
  );

  it("is refused a chunk that is too large, not JSON, or past the end, and nothing changes", async () => {
    const agent = writer();
    expect(await agent.refusal("a", {}, "x".repeat(70_000))).toMatch(
      /RangeError: a chunk of the stream "a" is 70002/,
    );
    expect(await agent.refusal("a", {}, undefined)).toMatch(
      /TypeError: a chunk of the stream "a" must be JSON/,
    );
    expect(await agent.refusal("a", { sizeMax: 5 }, "12345")).toMatch(
      /larger than 5 characters of JSON. Raise its option sizeMax/,
    );
    expect(await agent.refusal("", {}, "x")).toMatch(/1 to 256 whole characters/);
    expect(await agent.refusal("a\ud800", {}, "x")).toMatch(/1 to 256 whole characters/);
    expect(await agent.refusal("a", { keep: "soon" }, "x")).toMatch(/not a duration/);
    expect(await agent.refusal("a", { keep: "1 year" }, "x")).toMatch(/1 second to 30 days/);
    expect(await agent.refusal("a", { kep: "1h" } as {}, "x")).toMatch(/unknown option "kep"/);
    await agent.put("b", "x");
    await agent.finish("b", "end");
    expect(await agent.refusal("b", {}, "y")).toMatch(/the stream "b" has ended/);
    expect(await agent.see("b")).toMatchObject({ sequence: 1 });
  });

  it("of too many streams drops the longest ended ones, and is refused if all are open", async () => {
    await writer().many(1000, true);
    await writer().put("one more", "x");
    expect(await writer().see("many 0")).toMatchObject({ status: "absent" });
    expect(await writer().see("many 1")).toMatchObject({ status: "ended" });
    await writer("b").many(1000, false);
    await expect(writer("b").put("one more", "x")).rejects.toThrow(/has 1000 open streams/);
  });
});

it("of too many streams none that was just begun again is dropped, and the limit holds", async () => {
  await writer().many(1000, true);
  await test.settled();
  await writer().again("many 0", "one more", "and one more");
  expect(await writer().see("many 0")).toMatchObject({ status: "open", text: "again" });
  expect(await writer().see("many 1")).toMatchObject({ status: "absent" });
  expect(await writer().see("many 10")).toMatchObject({ status: "absent" });
  await test.settled();
  expect(await writer().count()).toBe(1000);
});

describe("the lifetime of a stream", () => {
  it("ends also if it was begun in a transaction that was rolled back", async () => {
    await writer().putRolledBack("a");
    await test.settled();
    expect(await writer().see("a")).toMatchObject({ status: "open", sequence: 1 });
    await test.advance("2 minutes");
    expect(await writer().see("a")).toMatchObject({ status: "absent" });
    expect(await writer().rows()).toBe(0);
  });

  it("ends a fixed time after its last write; its rows are removed, and no schedule is visible", async () => {
    await writer().put("a", "one");
    await writer().put("b", "two");
    await writer().finish("b", "end");
    expect(await writer().shown()).toBe(0);
    await test.advance("50 seconds");
    await writer().put("a", "more");
    await test.advance("40 seconds");
    expect(await writer().see("b")).toMatchObject({ status: "absent" });
    expect(await writer().see("a")).toMatchObject({ status: "open" });
    await test.advance("5 minutes");
    expect(await writer().see("a")).toMatchObject({ status: "absent" });
    expect(await writer().rows()).toBe(0);
    const before = await events();
    await test.advance("1 day");
    expect(await events()).toBe(before);
  });

  it("begins with its first chunk under the key of an earlier one", async () => {
    await writer().put("a", "old");
    expect(await writer().finish("a", "remove")).toBe(true);
    expect(await writer().finish("a", "remove")).toBe(false);
    expect(await writer().put("a", "new ", "one")).toBe(2);
    expect(await writer().see("a")).toMatchObject({ text: "new one" });
    await test.settled();
    await test.crash();
    await test.revive();
    expect(await writer().see("a")).toMatchObject({ text: "new one", sequence: 2 });
  });
});

describe("a reader over HTTP", () => {
  const read = (place?: string, query = "") =>
    test.fetch(`/agents/writer/a?${query}`, {
      headers: place === undefined ? {} : { "last-event-id": place },
    });

  it("receives an ended stream whole, and resumes after its Last-Event-ID", async () => {
    await writer().begin("a", WORDS);
    await test.settled();
    const response = await read();
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    expect(response.headers.get("x-own")).toBe("yes");
    const all = await eventsOf(response);
    expect(textOf(all)).toBe(TEXT);
    expect(all.at(-1)).toMatchObject({ event: "end", data: { words: WORDS.length } });
    const rest = await eventsOf(await read(all[9]!.id));
    expect(textOf(rest)).toBe(WORDS.slice(10).join(""));
    const bySince = await eventsOf(await read(undefined, `since=${all[9]!.id!}`));
    expect(bySince).toEqual(rest);
    expect((await read(all.at(-1)!.id)).status).toBe(204);
    expect((await read("no place!")).status).toBe(400);
    expect((await read(undefined, "key=other")).status).toBe(404);
  });

  it("starts over when the key now names another stream, and reports that", async () => {
    await writer().put("a", "old");
    const [first] = await eventsOf(await readSome());
    await writer().finish("a", "remove");
    await writer().put("a", "new");
    await writer().finish("a", "end");
    const all = await eventsOf(await read(first!.id));
    expect(all.map(({ event, data }) => [event, data])).toEqual([
      ["restart", null], ["message", "new"], ["end", null],
    ]); // prettier-ignore
  });
  it("of an ended stream starts over when the key now names another one that has ended", async () => {
    await writer().put("a", "one ");
    await writer().put("a", "two ");
    await writer().finish("a", "end");
    const ended = await eventsOf(await read());
    await writer().finish("a", "remove");
    await writer().put("a", "new");
    await writer().finish("a", "end");
    const all = await eventsOf(await read(ended.at(-1)!.id));
    expect(all.map(({ event }) => event)).toEqual(["restart", "message", "end"]);
  });

  it("waits for the next stream when its stream is removed, and fails if none begins", async () => {
    await writer().put("a", "old");
    const whole = eventsOf(await read());
    await test.advance(100);
    await writer().finish("a", "remove");
    await test.advance("5 seconds");
    await writer().put("a", "new");
    await test.advance(100);
    await writer().finish("a", "remove");
    await test.advance("11 seconds");
    expect((await whole).map(({ event, data }) => [event, data])).toEqual([
      ["message", "old"], ["restart", null], ["message", "new"], ["failed", "The stream was removed"],
    ]); // prettier-ignore
  });

  /** What there is of an open stream. */
  async function readSome(): Promise<Response> {
    const response = await read();
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    await reader.cancel();
    return new Response(value);
  }

  it("that reconnects after each crash receives each chunk once", async () => {
    pause = () => sleep(50);
    await writer().begin("a", WORDS);
    let place: string | undefined;
    let text = "";
    for (let crashes = 0; ; crashes++) {
      const response = await read(place);
      expect(response.status).toBe(200);
      const reader = response.body!.getReader();
      const decoder = new TextDecoder();
      let got = "";
      let over = false;
      try {
        for (let pieces = 0; pieces < 3; pieces++) {
          const { done, value } = await reader.read();
          over = done;
          if (done) break;
          got += decoder.decode(value);
        }
      } catch {
        // Its host was lost.
      }
      const all = await eventsOf(new Response(got));
      text += textOf(all);
      place = all.findLast(({ id }) => id !== undefined)?.id ?? place;
      if (over || all.at(-1)?.event === "end") break;
      await reader.cancel();
      if (crashes < 3) {
        await test.crash();
        await test.revive();
      }
    }
    expect(text).toBe(TEXT);
  });
});

describe("a reader of a socket", () => {
  const follow = (client: TestClient, key: string, since?: string, id = "r1"): void =>
    client.send({ type: "cf_agent_stream", id, key, ...(since === undefined ? {} : { since }) });

  it("receives what is stored, what follows, and the end", async () => {
    pause = () => sleep(50);
    const client = await test.connect(Writer, "a");
    follow(client, "a");
    await writer().begin("a", WORDS);
    await test.settled();
    const { text, frames } = partsOf(client);
    expect(text).toBe(TEXT);
    expect(frames.length).toBeGreaterThan(5);
    expect(frames.at(-1)).toMatchObject({ done: true, result: { words: WORDS.length } });
    const late = await test.connect(Writer, "a");
    follow(late, "a");
    await test.settled();
    expect(partsOf(late).text).toBe(TEXT);
    expect(partsOf(late).frames).toHaveLength(1);
  });

  it("is asked for its position by the next host, and continues there", async () => {
    pause = () => sleep(50);
    const client = await test.connect(Writer, "a");
    follow(client, "a");
    await writer().begin("a", WORDS);
    await test.advance(700);
    const { seq, text } = partsOf(client);
    expect(text).not.toBe("");
    await test.crash();
    await test.revive();
    await test.advance(10);
    expect(partsOf(client).frames.some((frame) => frame["resume"] === true)).toBe(true);
    expect(partsOf(client).text).toBe(text);
    follow(client, "a", seq);
    await test.settled();
    expect(partsOf(client).text).toBe(TEXT);
  });

  it("sees nothing that a crash undoes", async () => {
    pause = () => sleep(10);
    const client = await test.connect(Writer, "a");
    follow(client, "a");
    await writer().begin("a", WORDS);
    await test.advance(150);
    const crashed = test.crashAt("before commit", Writer, "a");
    await test.advance(500);
    await crashed;
    const { text } = partsOf(client);
    await test.revive();
    expect((await writer().see("a")).text.startsWith(text)).toBe(true);
    expect(text).not.toBe("");
  });

  it("that is not allowed, finds none, reads too many or is invalid gets an error", async () => {
    await writer().put("private", "x");
    const client = await test.connect(Writer, "a");
    follow(client, "private");
    follow(client, "none", undefined, "r2");
    follow(client, "none", "no place", "r3");
    for (let n = 0; n < 20; n++) follow(client, "open", undefined, `m${n}`);
    await test.advance("11 seconds");
    const error = (id: string) => partsOf(client, id).frames.at(-1)?.["error"];
    expect(error("r1")).toBe("This stream is private");
    expect(error("r2")).toBe('There is no stream "none"');
    expect(error("r3")).toBe("Invalid place in the stream: no place");
    expect(error("m19")).toBe("A socket reads at most 16 streams at once");
    expect(partsOf(client, "m19").text).toBe("");
  });

  it("that cancels receives no more of it", async () => {
    const client = await test.connect(Writer, "a");
    await writer().put("a", "one ");
    follow(client, "a");
    await test.settled();
    client.send({ type: "cf_agent_stream", id: "r1", cancel: true });
    await test.settled();
    await writer().put("a", "two ");
    await test.advance("1 second");
    expect(partsOf(client).text).toBe("one ");
  });

  it("is notified when it fails and when it is removed", async () => {
    const client = await test.connect(Writer, "a");
    await writer().put("a", "one ");
    await writer().put("b", "two ");
    follow(client, "a");
    follow(client, "b", undefined, "r2");
    await test.settled();
    await writer().finish("a", "fail", "the model is away");
    await writer().finish("b", "remove");
    await test.advance("11 seconds");
    expect(partsOf(client).frames.at(-1)).toMatchObject({ error: "the model is away" });
    expect(partsOf(client, "r2").frames.at(-1)).toMatchObject({ error: "The stream was removed" });
  });

  it("receives `restart` when its stream is removed and begun again some seconds later", async () => {
    const client = await test.connect(Writer, "a");
    await writer().put("a", "old");
    follow(client, "a");
    // Longer than the wait for a stream that does not exist.
    await test.advance("11 seconds");
    await writer().finish("a", "remove");
    await test.advance("5 seconds");
    expect(partsOf(client).frames).toHaveLength(1);
    await writer().put("a", "new");
    await writer().finish("a", "end");
    await test.settled();
    const frames = partsOf(client).frames.slice(1);
    expect(frames[0]).toMatchObject({ restart: true, chunks: ["new"] });
    expect(frames.at(-1)).toMatchObject({ done: true });
  });

  it("of a method that returns it receives ordinary frames, with their positions", async () => {
    await writer().begin("a", WORDS);
    await test.settled();
    const client = await test.connect(Writer, "a");
    const { chunks, result } = await client.stream<object>("watch", ["a"]);
    expect(chunks.join("")).toBe(TEXT);
    expect(result).toMatchObject({ words: WORDS.length });
    const [first] = client.ofType("rpc");
    expect(first).toMatchObject({ stream: "a", done: false });
    expect(first!["seq"]).toMatch(/\.1$/);
    await expect(client.stream("watch", ["none"])).rejects.toThrow('There is no stream "none"');
  });
});
