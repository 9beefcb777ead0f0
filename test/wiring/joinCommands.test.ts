/** What `main.ts` passes to the commands, as far as it decides something itself. */
import { expect, test } from "vitest";
import type { WorkerLink } from "../../services/workers/workerLink.ts";
import { commandJoins } from "../../services/wiring/joinCommands.ts";

const SILENT = { debug() {}, info() {}, warn() {}, error() {} };

test("a worker whose module fails does not wait to hear of its control process's broker", async () => {
  const link = { broker: new Promise(() => undefined) } as unknown as WorkerLink;
  const startWorker = (): never => {
    throw new Error("not in this test");
  };
  const begun = await commandJoins({ link, startWorker }).begin({
    role: "dev",
    natsUrl: undefined,
    dataFolder: "/nowhere",
    namespace: "agents",
    log: SILENT,
    progress: () => undefined,
  } as never);
  const waited = new Promise((resolve) => setTimeout(resolve, 1_000, "waits"));
  expect(await Promise.race([begun.abandon(), waited])).toBeUndefined();
});
