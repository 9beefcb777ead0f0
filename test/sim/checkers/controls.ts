/**
 * I15 for workflows that are paused, resumed, terminated and restarted: what the journal of an
 * instance says it was asked, and what it did after that. What a host still ran after it had lost
 * the instance leaves no trace.
 */
import type { ControlAction } from "../../../core/workflow/WorkflowCalls.ts";
import type { Violations } from "../../kit/checkers.ts";
import { FIRST, generationOf, SECOND } from "../Errand.ts";
import type { Run } from "../rig/Observed.ts";
import type { AgentHistory, JournaledEvent, RunHistory } from "../rig/RunHistory.ts";

/** The text by which an instance's journal says it. */
const SAID: ReadonlyArray<readonly [ControlAction, string]> = [
  ["pause", "workflow_run SET paused = 1"],
  ["resume", "workflow_run SET paused = 0"],
  ["terminate", "workflow_run SET status = 'terminated'"],
  ["restart", "workflow_run SET status = 'queued'"],
];

export interface Control {
  readonly action: ControlAction;
  readonly seq: number;
  readonly storedMs: number;
  readonly host: string;
  /** That it was asked of. */
  readonly generation: number;
}

/** The requests that an instance got and accepted, in order. */
export function controlsOf({ events }: Pick<AgentHistory, "events">): Control[] {
  const found: Control[] = [];
  let generation = 1;
  for (const { seq, storedMs, head } of events)
    for (const text of head.turns.flatMap(({ sql = [] }) => sql))
      for (const [action, said] of SAID) {
        if (!text.includes(said)) continue;
        found.push({ action, seq, storedMs, host: head.host, generation });
        if (action === "restart") generation++;
      }
  return found;
}

/** Whether the last terminate came after the last restart. */
export const isTerminated = (controls: ReadonlyArray<Control>): boolean =>
  controls.findLast(({ action }) => action === "terminate" || action === "restart")?.action ===
  "terminate";

/** I15: a terminated, paused or restarted instance stops; its accepted requests are stored. */
export function checkControlsHold(run: RunHistory): Violations {
  const wrong: string[] = [];
  const all = new Map<string, ReadonlyArray<Control>>();
  for (const history of run.agents) {
    if (history.id.class !== "Errand") continue;
    const controls = controlsOf(history);
    all.set(history.id.name, controls);
    if (controls.length === 0) continue;
    wrong.push(...stepsTooLate(run, history, controls), ...wroteTooLate(history, controls));
    if (history.ended?.startsWith("complete") === true)
      wrong.push(...leftOut(run, history, controls));
  }
  for (const { errand, action, atMs } of run.observed.controls) {
    const isStored = all
      .get(errand)
      ?.some((control) => control.action === action && control.storedMs <= atMs);
    // Asked of one that is not paused it changes nothing, and nothing is written.
    if (isStored !== true && action !== "resume")
      wrong.push(`errand ${errand} said that it took ${action}, and that is not stored`);
  }
  return wrong;
}

/** The request that ends what this one began; undefined if there is none. */
function endOf(control: Control, controls: ReadonlyArray<Control>): Control | undefined {
  const later = controls.slice(controls.indexOf(control) + 1);
  return later.find(({ action }) =>
    control.action === "pause" ? action !== "pause" : action === "restart",
  );
}

/** Steps that a host began though it knew better. */
function stepsTooLate(
  { observed }: RunHistory,
  { id, events }: AgentHistory,
  controls: ReadonlyArray<Control>,
): string[] {
  const wrong: string[] = [];
  const runs = observed.runs.filter(({ agent }) => agent === id.name);
  for (const control of controls) {
    if (control.action === "resume") continue;
    // What is terminated or restarted never runs again: everything after it belongs to another
    // generation.
    const end = control.action === "pause" ? endOf(control, controls) : undefined;
    const endMs = end?.storedMs ?? Infinity;
    for (const begun of runs)
      if (
        begun.kind === "workflow" &&
        generationOf(begun.key) === control.generation &&
        begun.atMs > control.storedMs &&
        begun.atMs < endMs &&
        knows(events, control, begun) &&
        !(control.action === "pause" && isResumed(runs, control, begun))
      )
        wrong.push(
          `errand ${id.name}: ${begun.op} began on ${begun.host} ${begun.atMs - control.storedMs} ms after its ${control.action} was stored`,
        );
  }
  return wrong;
}

/** The host stored it, or something after it: it is not one that had lost the instance before. */
const knows = (events: ReadonlyArray<JournaledEvent>, control: Control, begun: Run): boolean =>
  begun.host === control.host ||
  events.some(
    ({ seq, storedMs, head }) =>
      head.host === begun.host && seq > control.seq && storedMs <= begun.atMs,
  );

/** It continues at once, before the request is stored, maybe before its pause is stored. */
function isResumed(runs: ReadonlyArray<Run>, { storedMs }: Control, begun: Run): boolean {
  const asked = runs.filter(({ kind, host }) => kind === "control" && host === begun.host);
  const paused = asked.filter(({ op, atMs }) => op === "pause" && atMs <= storedMs);
  const fromMs = paused.at(-1)?.atMs ?? storedMs;
  return asked.some(({ op, atMs }) => op !== "pause" && atMs >= fromMs && atMs <= begun.atMs);
}

/** A terminated instance writes nothing more; a paused one sends nothing to its agent. */
function wroteTooLate({ id, events }: AgentHistory, controls: ReadonlyArray<Control>): string[] {
  const wrong: string[] = [];
  for (const control of controls) {
    if (control.action === "resume" || control.action === "restart") continue;
    const endSeq = endOf(control, controls)?.seq ?? Infinity;
    for (const event of events)
      if (event.seq > control.seq && event.seq < endSeq)
        for (const what of control.action === "pause" ? toldIn(event) : wroteIn(event))
          wrong.push(
            `errand ${id.name} event ${event.seq}: ${what} after its ${control.action} (event ${control.seq})`,
          );
  }
  return wrong;
}

const toldIn = ({ head }: JournaledEvent): string[] =>
  ((head.queue?.put ?? []) as ReadonlyArray<{ readonly id: string }>)
    .map(({ id }) => id)
    .filter((id) => id.includes("/workflow:"));

const wroteIn = ({ head }: JournaledEvent): string[] =>
  head.turns
    .filter(({ cause }) => cause.kind === "workflow" && OWN.has(cause.type ?? ""))
    .map(({ cause }) => `${cause.type} ${cause.id}`);

/** Types of the turns that are its own, and not its inputs'. */
const OWN: ReadonlySet<string> = new Set([
  "do", "sleep", "waitForEvent", "report", "complete", "errored", "undo",
]); // prettier-ignore

/** Steps that its last generation did not run: it has the results of another. */
function leftOut(
  { observed }: RunHistory,
  { id }: AgentHistory,
  controls: ReadonlyArray<Control>,
): string[] {
  const last = 1 + controls.filter(({ action }) => action === "restart").length;
  const ran = new Set(
    observed.runs
      .filter(({ agent, kind }) => agent === id.name && kind === "workflow")
      .filter(({ key }) => generationOf(key) === last)
      .map(({ op }) => op),
  );
  return [FIRST, SECOND]
    .filter((op) => !ran.has(op))
    .map((op) => `errand ${id.name}: ${op} did not run in generation ${last}`);
}
