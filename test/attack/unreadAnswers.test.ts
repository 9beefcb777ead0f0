/** Callers that ask for large answers and read them or not: the broker must keep the gateway. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RawClient } from "../http/kit.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./largeModule.ts", import.meta.url));
const CALLERS = 400;
/** With pieces of 256 KiB each, more than the broker keeps for a connection. */
const READERS = 1_200;
const PIECES = 5;
/** Starts and polls on a busy machine. */
const TEST_TIMEOUT_MS = 300_000;
const POLL_TIMEOUT_MS = 90_000;

let installation: Installation;
let gateway: AgentsProcess;
beforeAll(async () => {
  installation = await Installation.start({ shards: 4, module: MODULE });
  const host = await installation.startHost("host-1");
  ({ gateway } = installation);
  await Promise.all([host.ready(), gateway.ready()]);
}, TEST_TIMEOUT_MS);
afterAll(() => installation?.stop(), TEST_TIMEOUT_MS);

test(
  "a gateway keeps its connection to the broker, and answers others, while callers read nothing",
  async () => {
    const port = Number(new URL(gateway.url).port);
    const clients: RawClient[] = [];
    try {
      for (let n = 0; n < CALLERS; n += 1) {
        const client = await RawClient.connect(port);
        client.socket.pause();
        clients.push(
          client.send(`GET /agents/large/a${n % 20}/stream HTTP/1.1\r\nHost: h\r\n\r\n`),
        );
      }
      for (let n = 0; n < 20; n += 1)
        await pollUntil("another caller is answered", () =>
          fetch(`${gateway.url}/agents/large/other`).then(({ ok }) => ok, () => false), { timeoutMs: POLL_TIMEOUT_MS }); // prettier-ignore
      expect(readFileSync(installation.nats.logFile, "utf8")).not.toContain("Slow Consumer");
    } finally {
      for (const client of clients) client.socket.destroy();
    }
  },
  TEST_TIMEOUT_MS,
);

test(
  "each of many callers at once receives all of a large answer",
  async () => {
    const port = Number(new URL(gateway.url).port);
    const target = `/stream?pieces=${PIECES}`;
    const clients: RawClient[] = [];
    for (let n = 0; n < READERS; n += 1) clients.push(await RawClient.connect(port));
    const received = clients.map(
      ({ socket }) =>
        new Promise<number>((resolve) => {
          let bytes = 0;
          socket.on("data", ({ length }) => void (bytes += length));
          socket.on("close", () => resolve(bytes));
        }),
    );
    for (const [n, client] of clients.entries())
      client.send(`GET /agents/large/b${n % 20}${target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n`); // prettier-ignore
    const short = (await Promise.all(received)).filter((bytes) => bytes < PIECES * 64 * 1024);
    expect(short).toEqual([]);
    expect(readFileSync(installation.nats.logFile, "utf8")).not.toContain("Slow Consumer");
  },
  TEST_TIMEOUT_MS,
);
