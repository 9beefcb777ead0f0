/**
 * The main job, end to end: a signed webhook of about 300 bytes to one of 1,000 agents, stored, run
 * (state and one SQL insert), journaled, and answered 200 by the agent. Compared with the floor,
 * the least that any system of this shape has to do.
 */
import type { Bench, BenchOptions } from "./Bench.ts";
import { checkCounts } from "./rig/checkCounts.ts";
import { findFloor } from "./rig/findFloor.ts";
import { startFloor } from "./rig/startFloor.ts";
import { startOurs, type Form } from "./rig/startOurs.ts";
import { measureWebhooks } from "./rig/webhookLoad.ts";

/** Enough that every step is busy, as the floor's own figures have it. */
const CONNECTIONS = 64;
/** For latency: nothing queues. */
const CONNECTIONS_FEW = 4;

export const webhooks: Bench = {
  name: "webhooks",
  about:
    'signed webhooks end to end beside the floor (--form "one process", "two processes", "four processes")',
  run: async (options) => {
    const files = findFloor();
    const measured = await measureWebhooks(options, {
      files,
      subjects: [
        () => startFloor(files.floor, options),
        ...formsOf(options).map((form) => () => startOurs(form, options)),
      ],
      connections: [CONNECTIONS, CONNECTIONS_FEW],
      check: checkCounts,
    });
    return {
      ...measured,
      title: `signed, 300 B, 1,000 agents; ${options.rounds} × ${options.seconds} s each, medians`,
      notes: [
        "ratio: to the floor at as many connections, of medians. CPU: µs a webhook, of our Node processes and of nats-server.",
        "Checked: every answer was 200, and each agent counted its deliveries exactly once, in state and in SQL.",
        ...(options.profile === undefined ? [] : ["Profiled: ours is slower than it would be."]),
      ],
    };
  },
};

/** Four, only when named: they want more cores than a small machine has. */
export const formsOf = ({ forms }: BenchOptions): ReadonlyArray<Form> =>
  (["one process", "two processes", "four processes"] as const).filter((form) =>
    forms.length === 0 ? form !== "four processes" : forms.includes(form),
  );
