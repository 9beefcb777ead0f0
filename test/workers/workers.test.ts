/** The rules of a parent of workers, without processes: workers by hand, under virtual time. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { workerArguments } from "../../services/cli/serving/workerArguments.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { askHealth, askMetrics, askReadiness } from "../../services/workers/askWorkers.ts";
import { afterEnd, NO_HISTORY, type WorkerHistory } from "../../services/workers/restartRule.ts";
import type { WorkerEnd } from "../../services/workers/WorkerProcess.ts";
import { Workers, type WorkerState } from "../../services/workers/Workers.ts";
import { collectingLog } from "../kit/system.ts";
import { HandWorker } from "./HandWorker.ts";

const CRASHED: WorkerEnd = { code: 1, signal: null };
const IN_ORDER: WorkerEnd = { code: 0, signal: null };

let time: VirtualTime;
let started: HandWorker[][];
let restarted: number[];

const make = (count: number): Workers => {
  started = Array.from({ length: count }, () => []);
  restarted = [];
  const workers = new Workers({
    count,
    time,
    log: collectingLog(),
    start: (worker) => {
      const process = new HandWorker();
      started[worker]!.push(process);
      return process;
    },
    onRestart: (worker) => restarted.push(worker),
  });
  workers.begin();
  return workers;
};
const counts = (): number[] => started.map((processes) => processes.length);
const last = (worker: number): HandWorker => started[worker]!.at(-1)!;
const serve = async (...workers: number[]): Promise<void> => {
  for (const worker of workers) {
    last(worker).serve({ admin: "http://127.0.0.1:1" });
    await time.advance(0);
  }
};
const end = async (worker: number, how: WorkerEnd): Promise<void> => {
  last(worker).end(how);
  await time.advance(0);
};

beforeEach(() => {
  time = new VirtualTime();
});

describe("a parent's workers", () => {
  it("start with the first alone; the others start when it serves; all serve when each does", async () => {
    const workers = make(3);
    let all = false;
    void workers.serving.then(() => (all = true));
    expect(counts()).toEqual([1, 0, 0]);
    await serve(0);
    expect(counts()).toEqual([1, 1, 1]);
    await serve(1);
    expect([all, workers.states.map(({ _tag }) => _tag)]).toEqual([
      false,
      ["Serving", "Serving", "Starting"],
    ]);
    await serve(2);
    expect(all).toBe(true);
  });

  it("end with the worker's exit code if the first start fails", async () => {
    const workers = make(2);
    await serve(0);
    await end(1, { code: 2, signal: null });
    await expect(workers.failed).rejects.toMatchObject({
      _tag: "WorkerFailed",
      worker: 1,
      end: { code: 2, signal: null },
      message: expect.stringMatching(/^worker 1 ended before it served \(exit code 2\)/) as string,
    });
    expect(restarted).toEqual([]);
  });

  it("are restarted after they end, with a growing pause", async () => {
    const workers = make(1);
    const pauses: number[] = [];
    for (let crash = 0; crash < 10; crash++) {
      await serve(0);
      await end(0, CRASHED);
      expect(workers.states[0]).toEqual({ _tag: "Pausing", end: CRASHED });
      const startMs = time.monotonicMs();
      while (started[0]!.length === crash + 1) await time.advance(100);
      pauses.push(time.monotonicMs() - startMs);
    }
    expect(pauses).toEqual([
      200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000,
    ]); // prettier-ignore
    expect(restarted.length).toBe(10);
    await serve(0);
    await time.advance(60_000);
    await end(0, CRASHED);
    await time.advance(200);
    expect(counts()).toEqual([12]);
  });

  it("end as a pool when one fails five starts", async () => {
    const workers = make(1);
    let failed: unknown;
    workers.failed.catch((error: unknown) => (failed = error));
    await serve(0);
    for (let start = 0; start < 5; start++) {
      await end(0, CRASHED);
      await time.advance(30_000);
    }
    expect(failed).toBe(undefined);
    await end(0, CRASHED);
    expect(failed).toMatchObject({
      message: expect.stringContaining("5 times in a row before it served") as string,
    });
  });

  it("are all stopped by a stop, none restarted, and it completes when all have ended", async () => {
    const workers = make(3);
    await serve(0, 1, 2);
    await end(2, CRASHED);
    let unclean: ReadonlyArray<string> | undefined;
    void workers.stop().then((found) => (unclean = found));
    await end(0, IN_ORDER);
    await time.advance(20_000);
    expect([unclean, last(1).stopped, last(1).killed]).toEqual([undefined, true, false]);
    await end(1, IN_ORDER);
    expect([unclean, counts(), time.pending]).toEqual([[], [1, 1, 1], 0]);
  });

  it("are killed and reported when they do not stop in time", async () => {
    const workers = make(2);
    await serve(0, 1);
    let unclean: ReadonlyArray<string> | undefined;
    void workers.stop().then((found) => (unclean = found));
    await end(0, IN_ORDER);
    await time.advance(25_000);
    expect([unclean, last(1).killed]).toEqual([["worker 1 (SIGKILL)"], true]);
  });

  it("end in order by Ctrl-C only while they start", async () => {
    const byKey: WorkerEnd = { code: null, signal: "SIGINT" };
    const unclean = async (how: WorkerEnd, serves: boolean) => {
      const workers = make(1);
      if (serves) await serve(0);
      const stopped = workers.stop();
      await end(0, how);
      return stopped;
    };
    expect(await unclean(byKey, false)).toEqual([]);
    expect(await unclean({ code: null, signal: "SIGKILL" }, false)).toEqual(["worker 0 (SIGKILL)"]);
    expect(await unclean(byKey, true)).toEqual(["worker 0 (SIGINT)"]);
    expect(await unclean(CRASHED, true)).toEqual(["worker 0 (exit code 1)"]);
  });

  it("get a signal with the request to stop only while they start", async () => {
    const workers = make(2);
    await serve(0);
    const stopped = workers.stop();
    expect([last(0).terminated, last(1).terminated]).toEqual([false, true]);
    await end(0, IN_ORDER);
    await end(1, { code: null, signal: "SIGTERM" });
    expect(await stopped).toEqual([]);
  });

  it("do not start the others if a stop arrives while the first starts", async () => {
    const workers = make(2);
    const stopped = workers.stop();
    await serve(0);
    await end(0, IN_ORDER);
    expect(await stopped).toEqual([]);
    expect(counts()).toEqual([1, 0]);
  });
});

describe("a restarted worker", () => {
  it("forgets failed starts once it serves, and shortens the pause only after serving for a while", () => {
    let history: WorkerHistory = NO_HISTORY;
    let othersServe = false;
    const pause = (servedMs: number | undefined): number | "never" => {
      const next = afterEnd(history, servedMs, { othersServe });
      if (next._tag === "GiveUp") return "never";
      history = next.history;
      return next.afterMs;
    };
    const never = undefined;
    expect([1, never, never, never, never, 59_999, never, 60_000].map(pause)).toEqual([
      200, 400, 800, 1_600, 3_200, 6_400, 12_800, 200,
    ]);
    expect([never, never, never, never, never].map(pause)).toEqual([
      400,
      800,
      1_600,
      3_200,
      "never",
    ]);
    // The same end while others serve.
    othersServe = true;
    expect([never, never, never, never].map(pause)).toEqual([6_400, 12_800, 25_600, 30_000]);
  });
});

describe("a parent's answers for its workers", () => {
  let servers: Server[];
  const serving = async (answers: Readonly<Record<string, [number, string]>>) => {
    const server = createServer((request, response) => {
      const [status, body] = answers[request.url!] ?? [200, "ok\n"];
      response.writeHead(status).end(body);
    });
    servers.push(server);
    await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
    const admin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return { _tag: "Serving", serving: { admin }, sinceMs: 0 } satisfies WorkerState;
  };
  const GONE = {
    _tag: "Serving",
    serving: { admin: "http://127.0.0.1:1" },
    sinceMs: 0,
  } satisfies WorkerState;
  beforeEach(() => {
    servers = [];
  });
  afterEach(() => {
    for (const server of servers) server.close().closeAllConnections();
  });

  it("report ready when all are, with their notes", async () => {
    const ready = { "/readyz": [200, "ready\ndurability: always\n"] as [number, string] };
    const states = [await serving(ready), await serving(ready)];
    expect(await askReadiness(states)).toEqual({ ready: true, note: "durability: always" });
  });

  it("otherwise say which worker is not ready, and why", async () => {
    const states: WorkerState[] = [
      await serving({ "/readyz": [200, "ready\n"] }),
      await serving({ "/readyz": [503, "not ready: some shards have no host\n"] }),
      { _tag: "Starting" },
      { _tag: "Pausing", end: { code: null, signal: "SIGKILL" } },
      GONE,
    ];
    expect(await askReadiness(states)).toEqual({
      ready: false,
      reason:
        "worker 1: some shards have no host; worker 2: starting; worker 3: ended (SIGKILL) and will be restarted; worker 4: does not answer",
    });
  });

  it("report healthy while each worker that serves answers", async () => {
    const states: WorkerState[] = [await serving({}), { _tag: "Starting" }];
    const atOnce = { after: (_ms: number, f: () => void) => (f(), () => undefined) };
    expect(await askHealth(() => states, atOnce)).toEqual({ ready: true });
    expect(await askHealth(() => [...states, GONE], atOnce)).toEqual({
      ready: false,
      reason: "worker 2 does not answer",
    });
  });

  it("do not report a worker unhealthy that ended before its parent noticed", async () => {
    const states: WorkerState[] = [await serving({}), GONE];
    const ended = { _tag: "Pausing", end: { code: null, signal: "SIGKILL" } } as const;
    const hears = { after: (_ms: number, f: () => void) => ((states[1] = ended), f(), () => undefined) }; // prettier-ignore
    expect(await askHealth(() => states, hears)).toEqual({ ready: true });
  });

  it("contain all metric series, by worker, each family once", async () => {
    const family = "# HELP a_total A\\nand\n# TYPE a_total counter\n";
    const own = "# HELP own Own\n# TYPE own gauge\nown 1\n";
    const states: WorkerState[] = [
      await serving({ "/metrics": [200, `${family}a_total{x="{1} 2"} 1\na_total{x="2"} 2\n`] }),
      { _tag: "Starting" },
      await serving({ "/metrics": [200, `# HELP b B\n# TYPE b gauge\nb 3\n${family}a_total 4\n`] }),
      await serving({ "/metrics": [500, "no"] }),
    ];
    expect(await askMetrics(states, own)).toBe(
      `${own}${family}a_total{worker="0",x="{1} 2"} 1\na_total{worker="0",x="2"} 2\na_total{worker="2"} 4\n# HELP b B\n# TYPE b gauge\nb{worker="2"} 3\n`,
    );
  });
});

describe("a worker's command line", () => {
  it("is its parent's, with its own options last, before the arguments", () => {
    const own = ["--worker", "1", "--admin-port", "0", "--admin-hostname", "127.0.0.1"];
    expect(workerArguments(["host", "a.ts", "--workers", "2"], 1, undefined)).toEqual([
      "host", "a.ts", "--workers", "2", ...own,
    ]); // prettier-ignore
    expect(workerArguments(["gateway", "--port=0", "--", "-a.ts"], 1, 81)).toEqual([
      "gateway", "--port=0", ...own, "--port", "81", "--", "-a.ts",
    ]); // prettier-ignore
  });
});
