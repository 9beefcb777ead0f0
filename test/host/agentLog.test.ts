/** The log of an agent: a stack that an input's attempts share is written once. */
import { expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import type { LogFields } from "../../core/telemetry/Log.ts";
import { AgentLog } from "../../services/host/AgentLog.ts";

const THROWN = "Error: boom\n    at RepoAgent.onRequest (/app/server.ts:9:40)";

/** What is written of each error, which the attempts of one input throw in turn. */
function written(errors: ReadonlyArray<string>): ReadonlyArray<LogFields> {
  const lines: LogFields[] = [];
  let attempt = 0;
  const take = (_message: string, fields: LogFields = {}): void => void lines.push(fields);
  const log = new AgentLog(
    {
      log: { debug: take, info: take, warn: take, error: take },
      ambient: {
        current: () => ({
          cause: { kind: "webhook", id: "github:1", attempt: (attempt += 1) },
          conceal: (text: string) => text,
        }),
      },
    } as unknown as ConstructorParameters<typeof AgentLog>[0],
    agentId("RepoAgent", "acme"),
  );
  for (const error of errors) log.error("an error in the agent's code", { error });
  return lines;
}

test("a repeated stack is recognised, whatever Node's event loop was doing", () => {
  const [first, second] = written([
    `${THROWN}\n    at runNextTicks (node:internal/process/task_queues:60:5)\n    at process.processTimers (node:internal/timers:516:9)\n    at async runWebhook (runWebhook.js:14:26)`,
    `${THROWN}\n    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)\n    at async runWebhook (runWebhook.js:14:26)`,
  ]);
  expect(first!["error"]).toMatch(/onRequest/);
  expect(second).toMatchObject({ error: "Error: boom", stack: "as in the previous attempt" });
});

test("a different stack is logged", () => {
  const [, second] = written([THROWN, THROWN.replace("9:40", "10:2")]);
  expect(second!["error"]).toMatch(/server\.ts:10:2/);
});
