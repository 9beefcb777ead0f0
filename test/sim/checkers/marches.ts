/** I16: fibers and sub-agents. Returns its findings as text. */
import { agentPath } from "../../../schemas/AgentPath.ts";
import type { Violations } from "../../kit/checkers.ts";
import { MARCH_BUYS, MARCH_STEPS, marchFails } from "../Marcher.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import type { Order } from "../subjects.ts";
import { effectsOf, orderOf } from "./effects.ts";
import { wasUndone, wrongUndos } from "./undone.ts";

const WHOLE = Array.from({ length: MARCH_STEPS }, (_, n) => n + 1).join();

/**
 * I16: if the turn that began a fiber is stored, the fiber reaches its end on any hosts. What it
 * writes together with a stash is stored once and in order, and no work of it is left. A step whose
 * result is stored does not run again. A fiber that fails undoes its steps. Every order that a
 * provider was told is done began a fiber. A sub-agent is listed by its parent.
 */
export function checkMarchesArrive(run: RunHistory): Violations {
  const marchers = run.agents.filter(({ id }) => id.class === "Marcher");
  const wrong = marchers.flatMap((history) => [
    ...leftOf(history),
    ...(isListed(history, marchers) ? [] : [`${history.id.name} is not listed by its parent`]),
  ]);
  const taken = stepsOf(marchers);
  for (const [march, answers] of answersOf(marchers))
    if (answers.size > 1) wrong.push(`${march} was given the answers ${[...answers].join(", ")}`);
  const [done, dead] = endsOf(marchers);
  for (const [march, times] of done) if (times > 1) wrong.push(`${march} was done ${times} times`);
  for (const march of new Set([...done.keys(), ...taken.keys()])) {
    const found = taken.get(march)?.join() ?? "none";
    // A call whose answer is lost has begun it all the same, and its turn may fail for good.
    const mayBeNone = dead.has(march) && found === "none";
    if (found !== WHOLE && !mayBeNone) wrong.push(`${march} took the steps ${found}`);
    if (!done.has(march) && !dead.has(march)) wrong.push(`nobody began ${march}`);
  }
  for (const order of ordersOf(marchers)) {
    const { id } = order;
    if (taken.get(id)?.join() !== WHOLE) continue;
    if (marchFails(order)) wrong.push(...wrongUndos(run.observed, id, MARCH_BUYS));
    else if (wasUndone(run.observed, id)) wrong.push(`${id} did not fail, and was undone`);
  }
  for (const { id, op, applied } of run.observed.sent.values())
    if (op === "march" && applied && !done.has(id))
      wrong.push(`a marcher said that ${id} is begun, and its journal does not`);
  return wrong;
}

function leftOf({ id: { name }, fibers, armed, refused }: AgentHistory): string[] {
  return [
    ...(refused === undefined ? [] : [`${name} can't be rebuilt: ${refused}`]),
    ...(fibers ?? []).map((fiber) => `${name}: a fiber is owed: ${fiber}`),
    ...armed.map((id) => `${name}: its alarm is there: ${id}`),
  ];
}

function isListed({ id }: AgentHistory, all: ReadonlyArray<AgentHistory>): boolean {
  const [parent, child] = agentPath(id);
  if (child === undefined) return true;
  return all.some(({ id: of, below }) => of.name === parent?.name && below?.includes(child.name));
}

/** Each once. */
function ordersOf(marchers: ReadonlyArray<AgentHistory>): Iterable<Order> {
  const orders = new Map<string, Order>();
  for (const { cause } of marchers.flatMap(({ events }) =>
    events.flatMap(({ head }) => head.turns),
  )) {
    const order = orderOf(cause.body);
    if (order?.do === "march") orders.set(order.id, order);
  }
  return orders.values();
}

/** In their order, by march. */
function stepsOf(marchers: ReadonlyArray<AgentHistory>): Map<string, number[]> {
  const taken = new Map<string, number[]>();
  for (const row of marchers.flatMap(({ steps }) => steps ?? [])) {
    const [march = "", step] = row.split(" ");
    taken.set(march, [...(taken.get(march) ?? []), Number(step)]);
  }
  return taken;
}

/** The results of the steps, by march. */
function answersOf(marchers: ReadonlyArray<AgentHistory>): Map<string, Set<string>> {
  const answers = new Map<string, Set<string>>();
  for (const row of marchers.flatMap(({ steps }) => steps ?? [])) {
    const [march = "", , answer = ""] = row.split(" ");
    answers.set(march, (answers.get(march) ?? new Set()).add(answer));
  }
  return answers;
}

/** How often each was done, and which are dead. */
function endsOf(marchers: ReadonlyArray<AgentHistory>): [Map<string, number>, Set<string>] {
  const marchOf = (key: string): string => key.slice("github:".length);
  const isMarch = (key: string): boolean => key.startsWith("github:march-");
  const effects = marchers.map((history) => effectsOf(history, []));
  const done = effects.flatMap((effect) => [...effect.done]);
  const dead = effects.flatMap((effect) => [...effect.dead]);
  return [
    new Map(done.filter(([key]) => isMarch(key)).map(([key, times]) => [marchOf(key), times])),
    new Set(dead.filter(isMarch).map(marchOf)),
  ];
}
