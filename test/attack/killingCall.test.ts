/** An agent that ends its process at each run: two workers end at most, and others are served. */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { Installation } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket } from "../system/kit.ts";

const MODULE = fileURLToPath(new URL("./killerModule.ts", import.meta.url));
const HOSTS = 3;
/** Short: each death is found out by its leases' end. */
const LEASE_TTL_MS = 1_000;
/** Two ends of a process and its starts on a busy machine. Quiet ones take 5 seconds. */
const TOLD_MS_MAX = 120_000;
/** A call that is repeated is so a quarter of a second after its agent has an owner. */
const QUIET_MS = 1_500;
const TEST_TIMEOUT_MS = 300_000;
/** An answer that no caller treats as transient. */
const LOST = /host was lost/;

let installation: Installation;
let hosts: AgentsProcess[] = [];
let deathsBefore = 0;
let names = 0;

/** Deaths of workers, and of processes in which an agent runs alone. */
const ENDS: ReadonlySet<unknown> = new Set([
  "worker ended",
  "an isolated agent has ended its process",
]);
const allDeaths = (): number =>
  hosts.flatMap(({ lines }) => lines).filter(({ message }) => ENDS.has(message)).length;
/** Processes that ended in this test. */
const deaths = (): number => allDeaths() - deathsBefore;
const freshUrl = (): string => `${installation.gateway.url}/agents/killer/killer-${++names}`;

beforeAll(async () => {
  installation = await Installation.start({ shards: 8, leaseTtlMs: LEASE_TTL_MS, module: MODULE });
  const started = Array.from({ length: HOSTS }, (_, n) => installation.startHost(`host-${n + 1}`));
  hosts = await Promise.all(started);
}, TEST_TIMEOUT_MS);
afterAll(() => installation?.stop(), TEST_TIMEOUT_MS);

beforeEach(async () => {
  await installation.shared(HOSTS, TOLD_MS_MAX);
  deathsBefore = allDeaths();
}, TEST_TIMEOUT_MS);

const get = async (url: string, signal?: AbortSignal) => {
  const response = await fetch(url, signal === undefined ? {} : { signal });
  return { status: response.status, text: await response.text() };
};

/** All hosts run, and their agents keep answering: nobody repeats what killed the others. */
async function allIsQuiet(url: string): Promise<void> {
  await installation.shared(HOSTS, TOLD_MS_MAX);
  expect(hosts.every(({ exitCode }) => exitCode === undefined)).toBe(true);
  const untilMs = performance.now() + QUIET_MS;
  const answer = await pollUntil(
    "agents answer for a while",
    async () => {
      const value = await get(url);
      // A busy machine may lose a lease meanwhile, and the gateway then answers for its host.
      const isOver = value.status === 200 && performance.now() > untilMs;
      return isOver ? { done: true, value } : { done: false, saw: value };
    },
    { timeoutMs: TOLD_MS_MAX },
  );
  expect(answer.text).toBe("alive");
}

const workerEnds = (): Promise<unknown> =>
  pollUntil("a worker ends", () => deaths() > 0, { timeoutMs: TOLD_MS_MAX, intervalMs: 2 });

describe("a call that ends its agent's process each time it runs", () => {
  test.each(["exit", "abort"])(
    "is repeated once if it is a GET (%s), and then its caller gets an error",
    async (how) => {
      const url = freshUrl();
      const answer = await get(`${url}?end=${how}`, AbortSignal.timeout(TOLD_MS_MAX));
      expect(answer).toEqual({ status: 502, text: expect.stringMatching(LOST) as string });
      await allIsQuiet(url);
      expect(deaths()).toBe(2);
    },
    TEST_TIMEOUT_MS,
  );

  test(
    "is not repeated if its caller has left",
    async () => {
      const url = freshUrl();
      const caller = new AbortController();
      const left = get(`${url}?end=exit`, caller.signal).catch(() => "left");
      await workerEnds();
      caller.abort();
      expect(await left).toBe("left");
      await allIsQuiet(url);
      expect(deaths()).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );

  test.each([
    ["a message", "exit"],
    ["RPC", { type: "rpc", id: "1", method: "end", args: ["abort"] }],
  ])(
    "is repeated once if it is %s; then its socket is closed, and the agent's other sockets stay open",
    async (_what, message) => {
      const url = freshUrl();
      const onlooker = await TestSocket.open(url);
      const socket = await TestSocket.open(url);
      socket.send(message);
      await pollUntil("it is closed", () => socket.closed, { timeoutMs: TOLD_MS_MAX });
      expect(socket.closed).toMatchObject({ code: 1011, reason: expect.stringMatching(LOST) });
      await allIsQuiet(url);
      expect(deaths()).toBe(2);
      onlooker.send("hello");
      await onlooker.until("it is heard", () => onlooker.frames.includes("heard hello"));
      expect(onlooker.closed).toBe(undefined);
      await onlooker.close();
    },
    TEST_TIMEOUT_MS,
  );

  test(
    "is not repeated for a client that has left",
    async () => {
      const url = freshUrl();
      const socket = await TestSocket.open(url);
      socket.send("exit");
      await workerEnds();
      socket.socket.terminate();
      await allIsQuiet(url);
      expect(deaths()).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );

  test(
    "is never repeated if it is a stub's method call",
    async () => {
      const url = freshUrl();
      const answer = await get(url.replace("/agents/killer/", "/rpc/"));
      expect(answer).toMatchObject({ status: 500, text: expect.stringMatching(LOST) });
      await allIsQuiet(url);
      expect(deaths()).toBe(1);
    },
    TEST_TIMEOUT_MS,
  );
});

test(
  "an isolated agent receives and answers bodies that no message has room for",
  async () => {
    const url = freshUrl();
    expect((await get(`${url}?end=exit`)).status).toBe(502);
    const body = Buffer.alloc(3 * 1024 * 1024, "large ");
    // A lease may end meanwhile on a busy machine, and the host then loses the call.
    const answer = await pollUntil("it is answered", async () => {
      const response = await fetch(url, { method: "POST", body });
      const value = Buffer.from(await response.arrayBuffer());
      return response.ok ? { done: true, value } : { done: false, saw: response.status };
    });
    expect(answer.equals(body)).toBe(true);
  },
  TEST_TIMEOUT_MS,
);
