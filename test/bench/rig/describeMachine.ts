/** The machine that a bench ran on, as a line: numbers mean nothing without it. */
import { availableParallelism, cpus, loadavg, totalmem } from "node:os";

const BYTES_PER_GIB = 2 ** 30;

export function describeMachine(): string {
  const cpu = cpus()[0]?.model.trim() ?? "unknown CPU";
  const load = loadavg()[0] ?? 0;
  return (
    `${availableParallelism()} × ${cpu}, ${Math.round(totalmem() / BYTES_PER_GIB)} GiB, ` +
    `${process.platform} ${process.arch}, Node ${process.versions.node}, ` +
    `load before ${load.toFixed(1)}`
  );
}
