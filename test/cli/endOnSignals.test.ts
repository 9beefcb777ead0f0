/** A container's only process ends on signals without a listener, which the kernel drops. */
import { EventEmitter } from "node:events";
import { expect, it } from "vitest";
import { endOnSignals } from "../../services/cli/endOnSignals.ts";

/** A process that records how it would have ended. */
function fakeProcess(pid: number) {
  const exits: unknown[] = [];
  const emitter = Object.assign(new EventEmitter(), {
    pid,
    exit: (code: unknown) => exits.push(code),
  });
  endOnSignals(emitter as unknown as NodeJS.Process);
  return { emitter, exits };
}

it("PID 1 of a container ends on a signal before anything listens", () => {
  const { emitter, exits } = fakeProcess(1);
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) emitter.emit(signal, signal);
  expect(exits).toEqual([143, 130, 129]);
});

it("PID 1 leaves a signal to its listeners, and ends on it once there are none", () => {
  const { emitter, exits } = fakeProcess(1);
  const stop = (): void => {};
  emitter.on("SIGTERM", stop);
  emitter.emit("SIGTERM", "SIGTERM");
  expect(exits).toEqual([]);
  emitter.off("SIGTERM", stop);
  emitter.emit("SIGTERM", "SIGTERM");
  expect(exits).toEqual([143]);
});

it("any other process leaves signals to the kernel, which ends it", () => {
  const { emitter } = fakeProcess(4711);
  expect(emitter.eventNames()).toEqual([]);
});
