/** Many short turns that arrive together: between them, the host's other work runs. */
import { expect, test } from "vitest";
import { Agent } from "agents";
import { useSystems } from "../system/kit.ts";

const AGENTS = 60;
/** So long on any machine. Together they take over a second. */
const TURN_MS = 20;
/** Eight turns begin before the first has run. The watch below may miss a pass. */
const TURNS_A_PASS = 2 * 8;

/** Turns that ran in this pass. */
let ran = 0;

class Busy extends Agent {
  static override options = { http: "open" } as const;

  override async onRequest(): Promise<Response> {
    await Promise.resolve();
    const endMs = performance.now() + TURN_MS;
    while (performance.now() < endMs);
    ran++;
    return new Response();
  }
}

const systems = useSystems();

test("a burst of short turns is spread over passes of the event loop", async () => {
  const system = await systems.start({ agents: { Busy } }, { shards: 1 });
  const ask = async (n: number): Promise<void> => {
    expect((await fetch(`${system.url}/agents/busy/${n}`)).status).toBe(200);
  };
  const agents = Array.from({ length: AGENTS }, (_, n) => n);
  await Promise.all(agents.map(ask));
  let most = (ran = 0);
  const watch = setInterval(() => {
    most = Math.max(most, ran);
    ran = 0;
  }, 0);
  await Promise.all(agents.map(ask));
  clearInterval(watch);
  expect(most).toBeGreaterThan(0);
  expect(most).toBeLessThanOrEqual(TURNS_A_PASS);
});
