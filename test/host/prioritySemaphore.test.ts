/** The order in which work gets its permit, and what is kept of work that has had it. */
import { expect, test } from "vitest";
import { PrioritySemaphore } from "../../services/host/load/PrioritySemaphore.ts";

const NO_SLICES = { turn: () => undefined };
const turnOfLoop = () => new Promise((resolve) => setImmediate(resolve));

test("urgent work runs first, and the rest in order of arrival", async () => {
  const semaphore = new PrioritySemaphore(1, NO_SLICES);
  const ran: string[] = [];
  const run = (name: string, urgent = false) =>
    semaphore.run(urgent, async () => {
      ran.push(name);
      await turnOfLoop();
    });
  await Promise.all([run("a"), run("b"), run("c"), run("urgent", true), run("d")]);
  await Promise.all([run("e"), run("f"), run("g")]);
  expect(ran).toEqual(["a", "urgent", "b", "c", "d", "e", "f", "g"]);
});

test("what waits is forgotten once it runs, also while something always waits", async () => {
  const semaphore = new PrioritySemaphore(1, NO_SLICES);
  const { patient } = semaphore as unknown as { readonly patient: ReadonlyArray<unknown> };
  let keptMax = 0;
  const chain = async (): Promise<void> => {
    for (let n = 0; n < 100; n++) {
      await semaphore.run(false, turnOfLoop);
      keptMax = Math.max(keptMax, patient.length);
    }
  };
  await Promise.all(Array.from({ length: 10 }, chain));
  expect(keptMax).toBeLessThanOrEqual(20);
});
