/** I15: workflows. Each function returns its findings as text. */
import { CRASHES_MAX } from "../../../core/workflow/stepFacts.ts";
import { ERRAND_BUYS, errandResult, generationOf, purchaseOf, SECOND } from "../Errand.ts";
import type { Violations } from "../../kit/checkers.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import type { Order } from "../subjects.ts";
import { controlsOf, isTerminated, type Control } from "./controls.ts";
import { wasUndone, wrongUndos } from "./undone.ts";
import { effectsOf, keyOfId, orderOf } from "./effects.ts";

/**
 * I15: an instance runs if and only if the turn that started it is stored. It ends with the results
 * of its steps, whose functions run in order, each after the previous result was stored. Its agent
 * is informed once. An instance that fails undoes what it did.
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
        // One copy of it may be dead, and another done after that.
        if (order?.do !== "errand" || sent.has(order.id) || !done.has(keyOfId(order.id))) continue;
        const told = new Map<number, number>();
        for (const [key, times] of done)
          if (key.startsWith(`workflow:Errand/${order.id}/`))
            told.set(generationOf(key), (told.get(generationOf(key)) ?? 0) + times);
        const { verdict } = order;
        sent.set(order.id, { agent: history.id.name, told, verdict, storedMs, cut: jobDied });
      }
    }
  }
  const instances = new Map<string, AgentHistory>();
  for (const history of run.agents)
    // One that was asked something and never started has no run.
    if (history.id.class === "Errand" && history.ended !== undefined)
      instances.set(history.id.name, history);
  const crashed = crashedOut(run);
  for (const [id, errand] of sent)
    if (!crashed.has(id)) wrong.push(...wrongEnd(id, errand, instances.get(id)));
  for (const [id, history] of instances) {
    const storedMs = sent.get(id)?.storedMs;
    const first = history.events.find(({ head }) =>
      head.turns.some(({ cause }) => cause.kind === "workflow" && cause.type === "start"),
    );
    if (storedMs === undefined) wrong.push(`errand ${id} runs, and nobody sent it`);
    else if (first !== undefined && first.storedMs < storedMs)
      wrong.push(
        `errand ${id} ran ${storedMs - first.storedMs} ms before the turn that sent it was stored`,
      );
    wrong.push(...outOfOrder(run, history));
    if (!crashed.has(id)) wrong.push(...wrongPurchases(run, history));
  }
  const mayFail = [
    ...crashed,
    ...[...sent].filter(([, { verdict }]) => verdict === "rejected").map(([id]) => id),
  ];
  for (const { agent, key, op } of run.observed.runs)
    if (op === "told of an error" && !mayFail.some((id) => key.includes(`/${id}/`)))
      wrong.push(`${agent} was told of an error: ${key}`);
  return wrong;
}

/** Instances given up on purpose: hosts died too often during a step. Only in long runs. */
function crashedOut({ observed }: RunHistory): Set<string> {
  const begun = new Map<string, number>();
  for (const { kind, agent, key } of observed.runs)
    if (kind === "workflow") begun.set(`${agent} ${key}`, (begun.get(`${agent} ${key}`) ?? 0) + 1);
  const given = [...begun].filter(([, times]) => times >= CRASHES_MAX);
  return new Set(given.map(([place]) => place.split(" ")[0]!));
}

/** A failed instance has undone what it bought; a complete one has not. */
function wrongPurchases({ observed }: RunHistory, history: AgentHistory): string[] {
  const { name } = history.id;
  const generation = 1 + controlsOf(history).filter(restarts).length;
  const purchase = purchaseOf(name, generation);
  if (history.ended?.startsWith("errored") === true)
    return [...wrongUndos(observed, purchase, ERRAND_BUYS)];
  const isComplete = history.ended?.startsWith("complete") === true;
  return isComplete && wasUndone(observed, purchase)
    ? [`errand ${name} is complete, and what it bought was undone`]
    : [];
}

/** How an instance ended, and how often its agent was informed. */
function wrongEnd(id: string, errand: Sent, history: AgentHistory | undefined): string[] {
  const { agent, told, verdict, cut } = errand;
  const ended = history?.ended ?? "nothing";
  const controls = history === undefined ? [] : controlsOf(history);
  const generation = 1 + controls.filter(({ action }) => action === "restart").length;
  const times = told.get(generation) ?? 0;
  if ([...told.values()].some((count) => count > 1))
    return [`errand ${id}: ${agent} was told ${[...told.values()].join(" and ")} times`];
  const isOver = isTerminated(controls);
  // It may have informed its agent before.
  if (isOver && ended.startsWith("terminated")) return [];
  if (cut && (verdict === "rejected" || !ended.startsWith("errored"))) return [];
  const complete = `complete ${JSON.stringify(errandResult(id))}`;
  const expected = isOver ? "terminated " : complete;
  const isRight =
    ended === expected ||
    // One that was restarted may have been told so by an operator before.
    (verdict === "rejected" && !isOver && ended.startsWith("errored"));
  return [
    ...(isRight ? [] : [`errand ${id} of ${agent} ended with ${ended}, not ${expected}`]),
    ...(times === 1 ? [] : [`errand ${id}: ${agent} was told ${times} times`]),
  ];
}

interface Sent {
  readonly agent: string;
  /** How often, by generation of the instance. */
  readonly told: ReadonlyMap<number, number>;
  readonly verdict: Order["verdict"];
  /** The first event of the turn that started it. */
  readonly storedMs: number;
  /**
   * Its ledger was destroyed afterwards, together with what was not sent yet: the start or the
   * event. Or a job of its ledger is dead, which can happen to a job that runs at the same time as
   * an input that kills; that job may have been the one that sends the event.
   */
  cut: boolean;
}

/** The second step begins when the end of the wait is stored, its last entry in the journal. */
function outOfOrder({ observed }: RunHistory, { id, events }: AgentHistory): string[] {
  const waited = new Map<number, number>();
  let generation = 1;
  for (const event of events) {
    for (const { cause } of event.head.turns)
      if (cause.kind === "workflow" && cause.type === "waitForEvent")
        waited.set(generation, event.storedMs);
    generation += controlsOf({ events: [event] }).filter(restarts).length;
  }
  return observed.runs
    .filter(({ agent, kind, op }) => agent === id.name && kind === "workflow" && op === SECOND)
    .map(({ atMs, key }) => ({ atMs, storedMs: waited.get(generationOf(key)) ?? Infinity }))
    .filter(({ atMs, storedMs }) => atMs < storedMs)
    .map(
      ({ atMs, storedMs }) => `errand ${id.name}: ${SECOND} began ${storedMs - atMs} ms too early`,
    );
}

const restarts = ({ action }: Control): boolean => action === "restart";
