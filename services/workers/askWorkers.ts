/**
 * Answers the requests of the control process's private port by asking the workers' private ports.
 * The whole is alive when each serving worker answers, and ready when all are ready. Its metrics
 * are those of all workers, with a `worker` label where there are several. `serveWorkers` passes
 * the states in and serves the answers.
 */
import type { TimeShape } from "../../core/time/Time.ts";
import type { Readiness } from "../admin/AdminServer.ts";
import { mergeMetrics, type LabelledMetrics } from "../admin/mergeMetrics.ts";
import { describeEnd } from "./WorkerProcess.ts";
import type { WorkerState } from "./Workers.ts";
import { sleep } from "../../core/time/sleep.ts";

/** Below the 5 s of a scrape or probe. A worker whose loop stands still so long is unhealthy. */
const ANSWER_MS_MAX = 3_000;

/** The time from a worker's end until its parent is notified, on a busy machine. */
const END_HEARD_MS = 1_000;

type States = ReadonlyArray<WorkerState>;

/** Names each worker that is not ready, and why. */
export async function askReadiness(states: States): Promise<Readiness> {
  const answers = await Promise.all(
    states.map(async (state): Promise<Readiness> => {
      if (state._tag !== "Serving") return { ready: false, reason: describeState(state) };
      const answer = await ask(state.serving.admin, "/readyz");
      if (answer === undefined) return { ready: false, reason: "does not answer" };
      const [first = "", ...rest] = answer.text.trim().split("\n");
      return answer.ok
        ? { ready: true, note: rest.join("\n") }
        : { ready: false, reason: first.replace(/^not ready: /, "") };
    }),
  );
  const reasons = answers.flatMap((answer, worker) =>
    answer.ready ? [] : [`worker ${worker}: ${answer.reason}`],
  );
  if (reasons.length > 0) return { ready: false, reason: reasons.join("; ") };
  const notes = new Set(answers.map((answer) => (answer.ready ? (answer.note ?? "") : "")));
  notes.delete("");
  return { ready: true, ...(notes.size > 0 && { note: [...notes].join("\n") }) };
}

/**
 * Checks only workers that serve: one that ended is restarted by its parent, which is alive. A
 * request may be refused before the parent is notified of the worker's end. A worker that does not
 * answer therefore has a short time in which its end can become known.
 */
export async function askHealth(
  states: () => States,
  time: Pick<TimeShape, "after">,
): Promise<Readiness> {
  const silent = await Promise.all(
    states().map(async (state, worker) => {
      if (state._tag !== "Serving") return [];
      if ((await ask(state.serving.admin, "/healthz")) !== undefined) return [];
      await sleep(time, END_HEARD_MS);
      return states()[worker] === state ? [`worker ${worker} does not answer`] : [];
    }),
  );
  const reasons = silent.flat();
  return reasons.length === 0 ? { ready: true } : { ready: false, reason: reasons.join("; ") };
}

/** Prometheus text: `own`, and the metrics of workers that serve. Silent ones are left out. */
export async function askMetrics(states: States, own: string): Promise<string> {
  const sources = await Promise.all(
    states.map(async (state, worker): Promise<LabelledMetrics[]> => {
      if (state._tag !== "Serving") return [];
      const answer = await ask(state.serving.admin, "/metrics");
      // The only worker: its series are those of the whole.
      const labels: Record<string, string> = states.length > 1 ? { worker: String(worker) } : {};
      return answer?.ok === true ? [{ labels, text: answer.text }] : [];
    }),
  );
  return mergeMetrics([{ labels: {}, text: own }, ...sources.flat()]);
}

function describeState(state: Exclude<WorkerState, { readonly _tag: "Serving" }>): string {
  if (state._tag === "Starting") return "starting";
  return `ended (${describeEnd(state.end)}) and will be restarted`;
}

/** Returns undefined where the worker does not answer in time. */
async function ask(
  admin: string,
  path: string,
): Promise<{ readonly ok: boolean; readonly text: string } | undefined> {
  try {
    const response = await fetch(admin + path, { signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    return { ok: response.ok, text: await response.text() };
  } catch {
    return undefined; // the caller reports it
  }
}
