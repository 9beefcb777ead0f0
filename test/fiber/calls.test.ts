/** Calls of the fiber methods that are refused: what they name, and that they change nothing. */
import { expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";

class Worker extends Agent {
  /** Any method of the base class, which nobody calls from outside. */
  ask(method: string, ...args: unknown[]): unknown {
    return (this as unknown as Record<string, (...all: unknown[]) => unknown>)[method]!(...args);
  }
  start(options: object) {
    return this.startFiber("quick", () => 1, options);
  }
}

test("an option that is not known is refused: it would select other fibers, or none", async () => {
  await using run = await testAgents({ agents: [Worker] });
  const worker = run.agent(Worker, "w");
  await worker.start({ waitForCompletion: true });
  await expect(worker.ask("deleteFibers", { statuses: "aborted" })).rejects.toThrow(
    'deleteFibers: unknown option "statuses"; the options are status, settledBefore, limit',
  );
  await expect(worker.ask("listFibers", { names: "quick" })).rejects.toThrow("listFibers: unknown");
  await expect(worker.start({ fiberid: "x" })).rejects.toThrow(
    'startFiber("quick", …): unknown option "fiberid"',
  );
  await expect(worker.ask("deleteFibers", { settledBefore: "2026-12-01" })).rejects.toThrow(
    "deleteFibers: settledBefore is a valid Date",
  );
  expect(await worker.ask("listFibers")).toHaveLength(1);
});

test("replyToEmail needs a mail", async () => {
  await using run = await testAgents({ agents: [Worker] });
  const worker = run.agent(Worker, "w");
  for (const mail of [undefined, {}, { from: "a@example.com", headers: {} }])
    await expect(worker.ask("replyToEmail", mail, { fromName: "R", body: "hi" })).rejects.toThrow(
      "replyToEmail(email, options): pass the email that onEmail received",
    );
});

test.each(["runFiber", "startFiber"])("%s needs a name and a function", async (method) => {
  await using run = await testAgents({ agents: [Worker] });
  const worker = run.agent(Worker, "w");
  await expect(worker.ask(method, "search")).rejects.toThrow(
    `${method}("search", f): the second argument must be a function`,
  );
  await expect(worker.ask(method, "")).rejects.toThrow(`A fiber needs a name: ${method}(name`);
  expect(await worker.ask("listFibers")).toEqual([]);
});
