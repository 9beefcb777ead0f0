/** Errors that an agent's code leaves unhandled, in real processes: they end nothing else. */
import { createHmac, randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Installation, SECRET } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("./carelessModule.ts", import.meta.url));
/** Processes that start, and turns that fail and are retried, on a busy machine. */
const TIMEOUT_MS = 90_000;

interface State {
  readonly runs: number;
  readonly errors: ReadonlyArray<string>;
}

let installation: Installation;
let host: AgentsProcess;

beforeAll(async () => {
  installation = await Installation.start({ shards: 2, leaseTtlMs: 3_000, module: MODULE });
  host = await installation.startHost("one");
  await host.ready();
}, TIMEOUT_MS);
afterAll(() => installation?.stop(), TIMEOUT_MS);

async function send(agent: string, how: string): Promise<number> {
  const body = JSON.stringify({ agent, how });
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  const response = await fetch(`${installation.gateway.url}/webhooks/github`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-github-event": "push",
      "x-github-delivery": randomUUID(),
      "x-hub-signature-256": `sha256=${signature}`,
    },
    body,
  });
  await response.arrayBuffer();
  return response.status;
}

const stateOf = async (agent: string): Promise<State> =>
  (await (await fetch(`${installation.gateway.url}/agents/careless/${agent}`)).json()) as State;

const lineOf = (agent: string, message = "an error was not handled") =>
  host.lines.find((line) => line.message === message && line["name"] === agent);

describe("an error that an agent's code leaves unhandled", () => {
  test.each([
    ["rejection", "rejected"],
    ["timer", "thrown in a timer"],
    ["schedule", "0 25 * * *"],
  ])(
    "fails its turn while that runs (%s): it is retried, then dead, and reaches onError",
    async (how, text) => {
      expect(await send(how, how)).toBe(500);
      const state = await stateOf(how);
      expect(state.errors).toHaveLength(2);
      expect(state.errors[0]).toContain(text);
      expect(lineOf(how)).toMatchObject({
        level: "error",
        class: "Careless",
        turn: "webhook",
        key: expect.any(String) as string,
        failsItsTurn: true,
        error: expect.stringContaining(text) as string,
      });
      expect(host.exitCode).toBeUndefined();
    },
    TIMEOUT_MS,
  );

  test(
    "fails no turn if the code handles it",
    async () => {
      expect(await send("handled", "handled")).toBe(200);
      expect(await stateOf("handled")).toEqual({ runs: 1, errors: [] });
    },
    TIMEOUT_MS,
  );

  test(
    "reaches onError after its turn is over, and the turn stays done",
    async () => {
      expect(await send("late", "late")).toBe(200);
      await pollUntil("onError ran", async () => (await stateOf("late")).errors.length > 0, {
        timeoutMs: TIMEOUT_MS,
      });
      expect(await stateOf("late")).toEqual({ runs: 1, errors: ["after the turn"] });
      expect(lineOf("late")).toMatchObject({ failsItsTurn: false });
    },
    TIMEOUT_MS,
  );

  test(
    "is logged and counted in a gateway, which keeps running",
    async () => {
      const { gateway } = installation;
      expect(await (await fetch(`${gateway.url}/anything`)).text()).toBe("fetched");
      await pollUntil("it is logged", () =>
        gateway.lines.some(({ message }) => message.includes("outside of any turn")),
      );
      expect(await gateway.metrics()).toContain('agents_unhandled_errors_total{class=""} 1');
      expect(await send("after", "none")).toBe(200);
    },
    TIMEOUT_MS,
  );

  test("is counted under its agent's class", async () => {
    expect(await host.metrics()).toMatch(/agents_unhandled_errors_total\{class="Careless"\} [1-9]/);
  });
});
