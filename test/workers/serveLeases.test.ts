/** What a control process does with a worker that asks for nothing (`serveLeases`). */
import { beforeEach, describe, expect, it } from "vitest";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { serveLeases } from "../../services/workers/serveLeases.ts";
import { collectingLog } from "../kit/system.ts";
import { HandWorker } from "./HandWorker.ts";

/** As `serveLeases` has it. */
const SILENT_BEATS_MAX = 30;

describe("a worker whose watchdog reports that it runs", () => {
  let worker: HandWorker;
  let stopping: boolean;
  let log: ReturnType<typeof collectingLog>;
  const beats = (count: number, held = false): void => {
    for (let n = 0; n < count; n++) worker.report({ beat: true, held });
  };
  const ask = (): void =>
    worker.say({ leases: { n: 1, ask: "claim", key: "shard.1", value: "h" } });

  beforeEach(() => {
    const time = new VirtualTime();
    const leases = makeMemoryLeases(
      new MemoryBroker({ time, leaseTtlMs: 5_000, shards: 2 }).connect("control"),
    );
    worker = new HandWorker();
    stopping = false;
    log = collectingLog();
    const open = async () => ({ leases, close: async () => undefined });
    serveLeases({ time, log }, open).serve(0, worker, () => !stopping);
  });

  it("is ended if it asks for no lease although its thread is free", () => {
    ask();
    beats(SILENT_BEATS_MAX - 1);
    ask();
    beats(SILENT_BEATS_MAX - 1);
    expect(worker.killed).toBe(false);
    beats(1);
    expect(worker.killed).toBe(true);
    expect(log.lines.map(({ message }) => message).join()).toContain("asks for no lease");
  });

  it("lives while a turn holds it, while it starts, and while it stops", () => {
    beats(SILENT_BEATS_MAX * 2);
    ask();
    beats(SILENT_BEATS_MAX * 2, true);
    beats(SILENT_BEATS_MAX - 1);
    stopping = true;
    beats(SILENT_BEATS_MAX * 2);
    expect(worker.killed).toBe(false);
  });
});
