/** `--workers` as users run it, on a real nats-server. Some tests continue the one before. */
import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { ANSWERED_BY_AGENT, Installation, SECRET } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { postLedger } from "../kit/postLedger.ts";

const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
const MODULE = fileURLToPath(new URL("../faults/ledgerModule.ts", import.meta.url));
const SHARDS = 8;
/** A take-over is waited for below. */
const LEASE_TTL_MS = 1_500;
/** Cold starts on a machine that is busy. */
const PATIENCE = { timeoutMs: 90_000 };

let installation: Installation;
let nats: Installation["nats"];
let gateway: AgentsProcess;
let host: AgentsProcess;
/** The host's folder. */
let data: string;

beforeAll(async () => {
  installation = await Installation.start({
    shards: SHARDS,
    leaseTtlMs: LEASE_TTL_MS,
    gateway: false,
    env: ANSWERED_BY_AGENT,
  });
  ({ nats } = installation);
  data = installation.pathOf("host");
  const args = ["--workers", "2"];
  [host, gateway] = await Promise.all([
    installation.startHost("host", { args }),
    installation.startGateway({ args }),
  ]);
  await Promise.all([host.ready(), gateway.ready()]);
});

afterAll(() => installation?.stop());

/** Process ids of a parent's workers, by number: the last that was started. */
const pidsOf = (parent: AgentsProcess): ReadonlyArray<number> => {
  const pids: number[] = [];
  for (const { message, worker, pid } of parent.lines)
    if (message === "worker started") pids[worker as number] = pid as number;
  return pids;
};

const lives = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const holders = () => installation.shares();

/** The holder of each shard's lease, by its key. */
const ownersOfShards = async (): Promise<ReadonlyMap<string, string>> =>
  new Map((await installation.ports.leases.list("shard.")).map(({ key, value }) => [key, value]));

const sharedByTwo = (without: Iterable<string> = []): Promise<ReadonlyMap<string, number>> =>
  pollUntil(
    "two hosts have half of the shards each",
    async () => {
      const shares = await holders();
      const fair = shares.size === 2 && [...shares.values()].every((n) => n === SHARDS / 2);
      const others = [...without].every((holder) => !shares.has(holder));
      return fair && others ? { done: true, value: shares } : { done: false, saw: shares };
    },
    PATIENCE,
  );

let sent = 0;
/** Over a connection of its own: the system chooses a listener for each. */
const webhook = (): Promise<number> =>
  postLedger(
    gateway.url,
    { agent: `agent-${sent % 4}`, id: `delivery-${++sent}` },
    { connection: "close" },
  );

/** A command that is expected to fail. */
const run = (...args: ReadonlyArray<string>) =>
  new Promise<{ readonly code: unknown; readonly err: string }>((resolve) =>
    execFile(
      process.execPath,
      [MAIN, ...args],
      { env: { SECRET }, timeout: 90_000 },
      (error, _out, err) => resolve({ code: error?.code, err }),
    ),
  );

describe("--workers 2", () => {
  it("shares the shards among two host workers, each with its own folder", async () => {
    const shares = await sharedByTwo();
    expect(shares.size).toBe(2);
    expect(readdirSync(join(data, "hosts")).toSorted()).toEqual(["0", "1"]);
    expect(existsSync(join(data, "hosts", "1", "lock.json"))).toBe(true);
  });

  it("answers on one port with two gateway workers, whose metrics the parent exposes", async () => {
    const answeredBy = (text: string, worker: number): boolean =>
      new RegExp(`^agents_webhooks_total\\{worker="${worker}",.*status="200"\\} `, "m").test(text);
    const text = await pollUntil("both have answered a webhook", async () => {
      expect(await Promise.all([webhook(), webhook(), webhook()])).toEqual([200, 200, 200]);
      const seen = await gateway.metrics();
      return answeredBy(seen, 0) && answeredBy(seen, 1)
        ? { done: true, value: seen }
        : { done: false, saw: seen };
    });
    const counts = [...text.matchAll(/^agents_webhooks_total\{.*\} (\d+)$/gm)];
    expect(counts.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(sent);
    expect(text.match(/^# HELP agents_webhooks_total /gm)).toHaveLength(1);
    expect(text.match(/^# TYPE agents_webhooks_total counter$/gm)).toHaveLength(1);
    expect(text).toContain('agents_worker_restarts_total{worker="0"} 0');
    expect(text).toMatch(/^agents_webhook_seconds_bucket\{worker="1",.*,le="\+Inf"\} \d+$/m);
  });

  it("refuses a port that another program uses, shared or not", async () => {
    const port = new URL(gateway.url).port;
    const common = [MODULE, "--nats", nats.url, "--data", data, "--workers", "2"];
    const other = createServer().listen(0, "0.0.0.0");
    await new Promise((done) => other.once("listening", done));
    const otherPort = String((other.address() as AddressInfo).port);
    for (const taken of [port, otherPort])
      expect(await run("gateway", ...common, "--port", taken)).toEqual({
        code: 1,
        err: `agents: 0.0.0.0:${taken} is in use by another process: stop it, or choose another port\n`,
      });
    other.close();
  });

  it("is refused for a worker without a parent", async () => {
    const { code, err } = await run("host", MODULE, "--nats", nats.url, "--worker", "0");
    expect(code).toBe(2);
    expect(err).toContain("--worker is set by a control process");
  });

  it("reports a failing start once, without retrying", async () => {
    const missing = join(data, "none.ts");
    const { code, err } = await run("host", missing, "--nats", nats.url, "--workers", "2", "--data", data); // prettier-ignore
    expect(code).toBe(1);
    expect(err.match(/none\.ts/g)?.length).toBe(1);
    expect(err).toContain(
      "worker 0 ended before it served (exit code 1). All workers are stopped.",
    );
  });

  it("replaces a killed worker, and until then the process is not ready", async () => {
    const before = await sharedByTwo();
    const shards = await ownersOfShards();
    const [, killed = 0] = pidsOf(host);
    process.kill(killed, "SIGKILL");
    await pollUntil(
      "the parent is not ready, or the worker is back already",
      async () => {
        const text = await (await host.admin("/readyz")).text();
        const isBack = pidsOf(host)[1] !== killed;
        return isBack || text.startsWith("not ready: worker 1: ") || { done: false, saw: text };
      },
      PATIENCE,
    );
    expect((await host.admin("/healthz")).status).toBe(200);
    // On a busy machine the other takes the shards over before the worker is back.
    let tookOver = false;
    const after = await pollUntil(
      "the new one has half of the shards",
      async () => {
        const shares = await holders();
        tookOver ||= [...shares].some(([holder, n]) => before.has(holder) && n > SHARDS / 2);
        const isFair = shares.size === 2 && [...shares.values()].every((n) => n === SHARDS / 2);
        const isFresh = [...shares.keys()].some((holder) => !before.has(holder));
        return isFair && isFresh ? { done: true, value: shares } : { done: false, saw: shares };
      },
      PATIENCE,
    );
    await host.ready();
    expect(pidsOf(host)[1]).not.toBe(killed);
    // The other worker has exactly what it had: no shard has moved.
    const [stayed] = [...after.keys()].filter((holder) => before.has(holder));
    const shardsOf = (owners: ReadonlyMap<string, string>): string[] =>
      [...owners].flatMap(([key, holder]) => (holder === stayed ? [key] : [])).toSorted();
    if (!tookOver) expect(shardsOf(await ownersOfShards())).toEqual(shardsOf(shards));
    expect(await host.metrics()).toContain('agents_worker_restarts_total{worker="1"} 1');
    expect(readdirSync(join(data, "hosts")).length).toBe(2);
    // Stored, where the machine is too busy to answer at once.
    expect([200, 202]).toContain(await webhook());
  });

  it("ends all workers in order on SIGTERM, with exit code 0", async () => {
    const pids = pidsOf(gateway);
    expect(pids.map(lives)).toEqual([true, true]);
    await gateway.stop();
    expect(gateway.exitCode).toBe(0);
    expect(pids.map(lives)).toEqual([false, false]);
    const stopped = gateway.lines.filter(({ message }) => message === "gateway stopped");
    expect(stopped.map(({ worker }) => worker).toSorted()).toEqual([0, 1]);
  });

  it("leaves no process behind when the parent is killed, and its hosts stop in order", async () => {
    const pids = pidsOf(host);
    // Resolves when no process has its output open anymore; workers inherit it from their parent.
    await host.killControl();
    await pollUntil("whoever inherits them has buried them", () => {
      const left = pids.filter(lives);
      return left.length === 0 || { done: false, saw: left };
    });
    const stopped = host.lines.filter(({ message }) => message === "host stopped");
    expect(new Set(stopped.map(({ worker }) => worker))).toEqual(new Set([0, 1]));
    await pollUntil(
      "the leases that it kept for them have expired",
      async () => {
        const { size } = await holders();
        return size === 0 || { done: false, saw: size };
      },
      PATIENCE,
    );
  });
});
