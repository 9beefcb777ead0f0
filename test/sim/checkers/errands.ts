/** I15: workflows. Each function returns what it found wrong, in words. */
import { errandResult, SECOND } from "../Errand.ts";
import type { Violations } from "../../kit/checkers.ts";
import type { AgentHistory, RunHistory } from "../RunHistory.ts";
import { effectsOf, keyOfId, orderOf } from "./effects.ts";

/**
 * I15: an instance runs when, and only when, the turn that started it is stored; it ends with what its steps gave, whose
 * functions run in order, each after the result before it was stored; and its agent is told so once.
 */
export function checkErrandsEnd(run: RunHistory): Violations {
  const wrong: string[] = [];
  const sent = new Map<string, Sent>();
  for (const history of run.agents) {
    if (history.id.class !== "Ledger" || run.observed.damaged.has(history.id.name)) continue;
    const { done, dead } = effectsOf(history, []);
    const jobDied = [...dead].some((id) => id.startsWith("queue:"));
    for (const { head, storedMs } of history.events) {
      if (head.kind === "destroyed")
        for (const errand of sent.values()) errand.cut ||= errand.agent === history.id.name;
      for (const { cause } of head.turns) {
        const order = orderOf(cause.body);
        // Its first event: an attempt that is announced has one of its own.
        if (
          order?.do !== "errand" ||
          sent.has(order.id) ||
          dead.has(keyOfId(order.id)) ||
          !done.has(keyOfId(order.id))
        )
          continue;
        let told = 0;
        for (const [key, times] of done)
          if (key.startsWith(`workflow:Errand/${order.id}/`)) told += times;
        sent.set(order.id, { agent: history.id.name, told, storedMs, cut: jobDied });
      }
    }
  }
  const instances = new Map<string, AgentHistory>();
  for (const history of run.agents)
    if (history.id.class === "Errand") instances.set(history.id.name, history);
  for (const [id, { agent, told, cut }] of sent) {
    const ended = instances.get(id)?.ended ?? "nothing";
    if (cut && told <= 1 && !ended.startsWith("errored")) continue;
    if (ended !== `complete ${JSON.stringify(errandResult(id))}`)
      wrong.push(`errand ${id} of ${agent} ended with ${ended}`);
    if (told !== 1) wrong.push(`errand ${id}: ${agent} was told ${told} times`);
  }
  for (const [id, history] of instances) {
    const storedMs = sent.get(id)?.storedMs;
    const [first] = history.events;
    if (storedMs === undefined) wrong.push(`errand ${id} runs, and nobody sent it`);
    else if (first !== undefined && first.storedMs < storedMs)
      wrong.push(
        `errand ${id} ran ${storedMs - first.storedMs} ms before the turn that sent it was stored`,
      );
    wrong.push(...outOfOrder(run, history));
  }
  for (const { agent, key, op } of run.observed.runs)
    if (op === "told of an error") wrong.push(`${agent} was told of an error: ${key}`);
  return wrong;
}

interface Sent {
  readonly agent: string;
  readonly told: number;
  /** The first event of the turn that started it. */
  readonly storedMs: number;
  /**
   * Its ledger was destroyed after it, and with it went what was not sent yet: the start, the event. Or a job of its
   * ledger is dead, as one that runs beside an input that kills may be: that job may have been to send the event.
   */
  cut: boolean;
}

/** The second step begins when the wait's end is stored, which is the last that the journal tells of it, and not before. */
function outOfOrder({ observed }: RunHistory, { id, events }: AgentHistory): string[] {
  const waited = events.findLast(({ head }) =>
    head.turns.some(({ cause }) => cause.kind === "workflow" && cause.type === "waitForEvent"),
  );
  const storedMs = waited?.storedMs ?? Infinity;
  return observed.runs
    .filter(({ agent, kind, op }) => agent === id.name && kind === "workflow" && op === SECOND)
    .filter(({ atMs }) => atMs < storedMs)
    .map(({ atMs }) => `errand ${id.name}: ${SECOND} began ${storedMs - atMs} ms too early`);
}
