/**
 * One hot agent receives all webhooks, so that its turns run one after another. Compared with the
 * floor's pipeline with group commit (`groupFloor`), in which everything that arrives while an
 * event is being stored shares the next one.
 */
import { fileURLToPath } from "node:url";
import { pollUntil } from "../kit/poll.ts";
import { BenchFailed, type Bench, type BenchOptions } from "./Bench.ts";
import { findFloor } from "./rig/findFloor.ts";
import type { WrkRun } from "./rig/runWrk.ts";
import { RUN_SOURCE } from "./rig/ServerProcess.ts";
import { startPipeline } from "./rig/startFloor.ts";
import { SECRET, startOurs } from "./rig/startOurs.ts";
import type { Subject } from "./rig/Subject.ts";
import { measureWebhooks } from "./rig/webhookLoad.ts";
import { formsOf } from "./webhooks.ts";

const GROUP_FLOOR = fileURLToPath(new URL("./groupFloor.ts", import.meta.url));
/** As the webhook bench has it. */
const CONNECTIONS = 64;

export const hot: Bench = {
  name: "hot",
  about: 'one hot agent beside the floor with group commit (--form "one process", "two processes")',
  run: async (options) => {
    const measured = await measureWebhooks(options, {
      files: findFloor(),
      subjects: [
        () => startGroupFloor(options),
        ...formsOf(options).map((form) => async () => ({
          ...(await startOurs(form, options)),
          // The path names the agent.
          target: { PATH_FIXED: "/webhooks/hot/one" },
        })),
      ],
      connections: [CONNECTIONS],
      check: checkHot,
    });
    return {
      ...measured,
      title: `signed, 300 B, one agent; ${options.rounds} × ${options.seconds} s each, medians`,
      notes: [
        "ratio: to the floor with group commit, of medians. CPU: µs a webhook, of our Node processes and of nats-server.",
        "Checked: every answer was 200, and the agent counted each delivery exactly once, in state and in SQL.",
      ],
    };
  },
};

const startGroupFloor = (options: BenchOptions): Promise<Subject> =>
  startPipeline(options, {
    name: "group floor",
    args: (nats, port) => [...RUN_SOURCE, GROUP_FLOOR, `${port}`, nats.url, SECRET],
    target: { PATH_FIXED: "/webhooks/hot/one" },
  });

/** The agent counted every answer of the gateway, and they were all 200. */
async function checkHot(subject: Subject, runs: ReadonlyArray<WrkRun>): Promise<void> {
  const seen = runs.reduce((sum, run) => sum + run.answered, 0);
  await pollUntil(`${subject.name}: answers and the agent agree`, async () => {
    const answers = new Map(await subject.answers());
    if ([...answers.keys()].some((status) => status !== 200))
      throw new BenchFailed(
        `${subject.name}: not every answer was 200: ${[...answers].join(" ")} (status, answers)`,
      );
    const response = await fetch(`${subject.url}/agents/counting-agent/one`);
    const { count, rows } = (await response.json()) as { count: number; rows: number };
    const answered = answers.get(200) ?? 0;
    const agrees = count === answered && rows === answered && answered >= seen;
    return agrees
      ? { done: true, value: undefined }
      : {
          done: false,
          saw: `${answered} answered, wrk saw ${seen}, counted ${count} and ${rows} in SQL`,
        };
  });
}
