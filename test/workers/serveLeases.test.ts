/** A control process with a worker that sends no requests (`serveLeases`). */
import { beforeEach, describe, expect, it } from "vitest";
import type { LeasesShape } from "../../core/lease/Leases.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { REPORT_BEAT_MS } from "../../services/watchdog/reports.ts";
import { serveLeases } from "../../services/workers/serveLeases.ts";
import { collectingLog } from "../kit/system.ts";
import { HandWorker } from "./HandWorker.ts";

/** As `serveLeases` has it: 15 s. */
const SILENT_BEATS_MAX = 30;
/** As `serveLeases` has it: a minute. */
const BEATLESS_LOOKS_MAX = 120;

let worker: HandWorker;
let stopping: boolean;
let log: ReturnType<typeof collectingLog>;
let time: VirtualTime;
const beats = async (count: number, held = false): Promise<void> => {
  for (let n = 0; n < count; n++) {
    await time.advance(REPORT_BEAT_MS);
    worker.report({ beat: true, held });
  }
};
const ask = (): void =>
  worker.say({ leases: [{ n: 1, ask: "claim", key: "shard.1", value: "h" }] });

const serve = (leaseTtlMs: number, change: Partial<LeasesShape> = {}): void => {
  time = new VirtualTime();
  const leases = {
    ...makeMemoryLeases(new MemoryBroker({ time, leaseTtlMs, shards: 2 }).connect("control")),
    ...change,
  };
  worker = new HandWorker();
  stopping = false;
  log = collectingLog();
  const open = async () => ({ leases, close: async () => undefined });
  serveLeases({ time, log }, open).serve(0, worker, () => !stopping);
};
beforeEach(() => serve(5_000));

describe("a worker whose watchdog reports that it is running", () => {
  it("is ended if it requests no lease although its thread is free", async () => {
    ask();
    await beats(SILENT_BEATS_MAX - 1);
    ask();
    await beats(SILENT_BEATS_MAX - 1);
    expect(worker.killed).toBe(false);
    await beats(1);
    expect(worker.killed).toBe(true);
    expect(log.lines.map(({ message }) => message).join()).toContain("renews no lease");
  });

  it("may be silent for as long as the TTL where that is longer: it asks at a third of it", async () => {
    serve(60_000);
    ask();
    const beatsOfTtl = 60_000 / REPORT_BEAT_MS;
    await beats(beatsOfTtl - 1);
    expect(worker.killed).toBe(false);
    await beats(1);
    expect(worker.killed).toBe(true);
  });

  it("survives a freeze of its control process: beats that arrive at once count once", async () => {
    ask();
    await time.advance(REPORT_BEAT_MS);
    for (let n = 0; n < SILENT_BEATS_MAX * 2; n++) worker.report({ beat: true, held: false });
    expect(worker.killed).toBe(false);
  });

  it("survives while the broker does not answer its request", async () => {
    serve(5_000, { watch: () => new Promise(() => undefined) });
    worker.say({ leases: [{ n: 1, ask: "watch" }] });
    await beats(SILENT_BEATS_MAX * 2);
    expect(worker.killed).toBe(false);
  });

  it("survives while a turn blocks it, while it starts, and while it stops", async () => {
    await beats(SILENT_BEATS_MAX * 2);
    ask();
    await beats(SILENT_BEATS_MAX * 2, true);
    await beats(SILENT_BEATS_MAX - 1);
    stopping = true;
    await beats(SILENT_BEATS_MAX * 2);
    expect(worker.killed).toBe(false);
  });
});

describe("a worker whose watchdog has reported that it is running, and reports no more", () => {
  it("is ended after a minute in which its control process ran", async () => {
    await beats(1);
    await time.advance(REPORT_BEAT_MS * (BEATLESS_LOOKS_MAX - 1));
    expect(worker.killed).toBe(false);
    await time.advance(REPORT_BEAT_MS);
    expect(worker.killed).toBe(true);
    expect(log.lines.map(({ message }) => message).join()).toContain("has reported nothing");
  });

  it("survives while it stops, and if it has no watchdog", async () => {
    ask();
    await time.advance(REPORT_BEAT_MS * BEATLESS_LOOKS_MAX * 2);
    await beats(1);
    stopping = true;
    await time.advance(REPORT_BEAT_MS * BEATLESS_LOOKS_MAX * 2);
    expect(worker.killed).toBe(false);
  });
});
