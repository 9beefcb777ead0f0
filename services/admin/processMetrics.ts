/**
 * Metrics of the process itself, under the names that dashboards for Node know: its memory, its
 * processor time, how late its event loop is, and its garbage collection. A process that serves
 * registers them once; its control process has none of its own.
 */
import { readdirSync } from "node:fs";
import { monitorEventLoopDelay, performance, PerformanceObserver } from "node:perf_hooks";
import type { PrometheusMetrics } from "./PrometheusMetrics.ts";

/** How often the delay is measured: seldom enough that an idle process stays idle. */
const DELAY_RESOLUTION_MS = 50;
const GC_SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5]; // from a scavenge to a pause that is felt
/** Units of `process.cpuUsage`, of the delay, and of everything else. */
const US_PER_SECOND = 1e6;
const NS_PER_SECOND = 1e9;
const MS_PER_SECOND = 1e3;

/** Returns the function that ends the measurements. */
export function measureProcess(metrics: PrometheusMetrics): () => void {
  const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
  delay.enable();
  const spread = metrics.histogram("nodejs_gc_duration_seconds", "Garbage collections", GC_SECONDS);
  const collections = new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) spread(duration / MS_PER_SECOND);
  });
  collections.observe({ entryTypes: ["gc"] });

  metrics.counterFrom("process_cpu_seconds_total", "Processor time, user and system", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / US_PER_SECOND;
  });
  metrics.gaugeFrom("process_start_time_seconds", "Start of the process, since the epoch", () =>
    performance.timeOrigin / MS_PER_SECOND); // prettier-ignore
  metrics.gaugeFrom("process_resident_memory_bytes", "Resident memory", () =>
    process.memoryUsage.rss(),
  );
  // Linux only: elsewhere the read fails, and the series is left out.
  metrics.gaugeFrom("process_open_fds", "Open file descriptors", () =>
    readdirSync("/proc/self/fd").length); // prettier-ignore
  const heap = (name: string, help: string, of: keyof NodeJS.MemoryUsage): void =>
    metrics.gaugeFrom(name, help, () => process.memoryUsage()[of]);
  heap("nodejs_heap_size_total_bytes", "Size of V8's heap", "heapTotal");
  heap("nodejs_heap_size_used_bytes", "Used part of V8's heap", "heapUsed");
  heap("nodejs_external_memory_bytes", "Memory of buffers and the like", "external");
  const late = (percentile: number): void =>
    metrics.gaugeFrom(
      `nodejs_eventloop_lag_p${percentile}_seconds`,
      `How late the event loop was: percentile ${percentile} since the start`,
      // A delay is measured with the interval that it is over.
      () => Math.max(0, delay.percentile(percentile) / NS_PER_SECOND - DELAY_RESOLUTION_MS / MS_PER_SECOND), // prettier-ignore
    );
  late(50);
  late(99);
  return () => {
    delay.disable();
    collections.disconnect();
  };
}
