import { expect, test } from "vitest";
import { machineTime } from "../../services/node/MachineTime.ts";
import { handleUnhandledErrors } from "../../services/node/unhandledErrors.ts";

test("an unhandled error ends nothing, even if the process can't log it", () => {
  let seen = 0;
  const remove = handleUnhandledErrors({
    log: {
      error: () => {
        throw new Error("broken by an agent's code");
      },
    },
    time: machineTime,
    onError: () => void seen++,
  });
  const handle = process.listeners("uncaughtException").at(-1)!;
  remove();
  expect(() => handle(new Error("x"), "uncaughtException")).not.toThrow();
  expect(seen).toBe(1);
});
