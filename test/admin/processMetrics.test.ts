/** The metrics of a process about itself. */
import { expect, it } from "vitest";
import { measureProcess } from "../../services/admin/processMetrics.ts";
import { PrometheusMetrics } from "../../services/admin/PrometheusMetrics.ts";
import { pollUntil } from "../kit/poll.ts";

const valuesOf = async (metrics: PrometheusMetrics): Promise<ReadonlyMap<string, number>> =>
  new Map(
    (await metrics.render())
      .split("\n")
      .filter((line) => line !== "" && !line.startsWith("#"))
      .map((line) => {
        const [name, value] = line.split(" ");
        return [name!, Number(value)] as const;
      }),
  );

it("CPU time, memory, heap and collections are this process's, and grow with its work", async () => {
  const metrics = new PrometheusMetrics();
  const end = measureProcess(metrics);
  try {
    const before = await valuesOf(metrics);
    const used = process.memoryUsage();
    expect(before.get("process_resident_memory_bytes")).toBeGreaterThan(used.rss / 2);
    expect(before.get("nodejs_heap_size_used_bytes")).toBeLessThan(used.heapTotal * 2);
    expect(before.get("process_start_time_seconds")).toBeLessThan(Date.now() / 1000);
    expect(before.get("process_open_fds")).toBeGreaterThan(2);
    // Produces garbage, and blocks the event loop for a while.
    const grown = await pollUntil("a collection and a delay", async () => {
      let sum = 0;
      for (let n = 0; n < 200_000; n++) sum += JSON.stringify({ n }).length;
      const now = await valuesOf(metrics);
      const collected = (now.get("nodejs_gc_duration_seconds_count") ?? 0) > 0;
      const late = (now.get("nodejs_eventloop_lag_p99_seconds") ?? 0) > 0;
      return sum > 0 && collected && late ? { done: true, value: now } : { done: false, saw: now };
    });
    const cpu = "process_cpu_seconds_total";
    expect(grown.get(cpu)).toBeGreaterThan(before.get(cpu)!);
    expect(await metrics.render()).toContain(`# TYPE ${cpu} counter`);
  } finally {
    end();
  }
});
