/** I20: turns with steps. Returns its findings as text. */
import type { Violations } from "../../kit/checkers.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import type { Order } from "../subjects.ts";
import { orderOf } from "./effects.ts";

interface Call {
  readonly id: string;
  readonly steps: number;
  readonly writesFirst: boolean;
}

/**
 * I20: for any crash, a turn with steps has written what one run of it writes, once and in order,
 * with the results of its steps. The state counts as many writes as SQL has. A step whose result is
 * stored does not run again. A durable call is one such turn, however often and by whomever it is
 * called; all callers get the same answer, and it is correct.
 */
export function checkCallsApplyOnce(run: RunHistory): Violations {
  const callers = run.agents.filter(({ id }) => id.class === "Caller");
  const done = new Set(callers.flatMap((history) => [...callsOf(history).keys()]));
  const wrong = toldWrong(run, done);
  return [...wrong, ...callers.flatMap((history) => wrongIn(run, history))];
}

function wrongIn(run: RunHistory, history: AgentHistory): string[] {
  const { name } = history.id;
  if (history.refused !== undefined) return [`${name} can't be rebuilt: ${history.refused}`];
  const rows = (history.parts ?? []).map((row) => row.split(" "));
  const count = (history.pictures[0]?.state as { count?: number } | undefined)?.count ?? 0;
  const calls = callsOf(history);
  const stored = resultsOf(history);
  return [
    ...(count === rows.length ? [] : [`${name} counts ${count}, and SQL has ${rows.length}`]),
    ...rows
      .filter(([id]) => !calls.has(id!))
      .map(([id]) => `${name} has a row of ${id}, which is not done`),
    ...[...calls.values()].flatMap((call) => wrongOf(call, rows, stored)),
    ...againOf(run, history),
  ];
}

function toldWrong({ observed }: RunHistory, done: ReadonlySet<string>): string[] {
  const wrong: string[] = [];
  const told = new Map<string, Set<string>>();
  for (const { call, what } of observed.told)
    told.set(call, (told.get(call) ?? new Set()).add(what));
  for (const [call, whats] of told) {
    if (whats.size > 1) wrong.push(`callers of ${call} were told ${[...whats].join(" and ")}`);
    if (whats.has("result") !== done.has(call))
      wrong.push(`callers of ${call} were told ${[...whats].join()}, and it is ${done.has(call) ? "" : "not "}done`); // prettier-ignore
  }
  return wrong;
}

/** A durable call's body is the list of its arguments. */
function orderIn(body: string | undefined): Order | undefined {
  const order = orderOf(body) as Order | ReadonlyArray<Order> | undefined;
  return Array.isArray(order) ? (order as ReadonlyArray<Order>)[0] : (order as Order | undefined);
}

/** The calls that are done, by the orders of webhooks and the payloads of queue items. */
function callsOf({ events }: AgentHistory): Map<string, Call> {
  const orders = new Map<string, Call>();
  const found = new Map<string, Call>();
  for (const { head } of events)
    for (const { cause, done = [], dead, error } of head.turns) {
      const order = orderIn(cause.body);
      const key = cause.id ?? "";
      const isWebhook = cause.kind === "webhook";
      if (order !== undefined && (!isWebhook || (order.ms ?? 0) % 4 !== 0))
        orders.set(key, {
          id: order.id,
          steps: order.fails ?? 0,
          writesFirst: (order.ms ?? 0) % 2 !== 0,
        });
      const call = orders.get(key);
      // A durable call that has failed is done, and no dead letter.
      const hasFailed = dead === true || (cause.kind === "queue" && error !== undefined);
      if (call !== undefined && done.length > 0 && !hasFailed) found.set(call.id, call);
    }
  return found;
}

/** The results of each order's steps, as the journal has them. */
function resultsOf({ events }: AgentHistory): Map<string, Map<string, string>> {
  const ids = new Map<string, string>();
  const results = new Map<string, Map<string, string>>();
  for (const { head } of events)
    for (const { cause, steps = [] } of head.turns) {
      const key = cause.id ?? "";
      const id = orderIn(cause.body)?.id ?? ids.get(key);
      if (id === undefined) continue;
      ids.set(key, id);
      const of = results.get(id) ?? new Map<string, string>();
      results.set(id, of);
      for (const step of steps) of.set(step.key, String(step.result));
    }
  return results;
}

function wrongOf(
  { id, steps, writesFirst }: Call,
  rows: ReadonlyArray<ReadonlyArray<string>>,
  stored: ReadonlyMap<string, ReadonlyMap<string, string>>,
): string[] {
  const own = rows.filter(([of]) => of === id);
  const parts = own.map(([, part]) => part).join();
  const first = writesFirst ? 0 : 1;
  const whole = Array.from({ length: Math.max(0, steps + 1 - first) }, (_, n) => n + first).join();
  const runs = new Set(own.map(([, , run]) => run));
  const results = Array.from({ length: steps }, (_, n) => stored.get(id)?.get(`${n + 1}:ask`));
  return [
    ...(parts === whole ? [] : [`${id} wrote the parts ${parts}; one run writes ${whole}`]),
    ...(runs.size > 1 ? [`what ${id} wrote is of ${runs.size} runs`] : []),
    ...(results.includes(undefined) ? [`a result of ${id} is not in the journal`] : []),
    ...own
      .filter(([, part, , returned]) => returned !== results.slice(0, Number(part)).join())
      .map(([, part]) => `part ${part} of ${id} has other results than the journal`),
  ];
}

/**
 * Steps that were run by an agent that knew their result, while their input was neither done nor
 * dead. One that does not know of it is older than the journal, so nothing that it does is stored.
 */
function againOf({ observed }: RunHistory, { events }: AgentHistory): string[] {
  const wrong: string[] = [];
  const ids = new Map<string, string>();
  const since = new Map<string, number>();
  const spans: Array<{ readonly step: string; readonly from: number; readonly to: number }> = [];
  for (const { head, seq } of events)
    for (const { cause, steps = [], done = [], dead } of head.turns) {
      const key = cause.id ?? "";
      const id = orderIn(cause.body)?.id ?? ids.get(key);
      if (id === undefined) continue;
      ids.set(key, id);
      for (const step of steps) {
        const of = `${id} ${step.key.split(":")[0]}`;
        if (!since.has(of)) since.set(of, seq);
      }
      if (done.length === 0 && dead !== true) continue;
      for (const [step, from] of since)
        if (step.startsWith(`${id} `)) {
          spans.push({ step, from, to: seq });
          since.delete(step);
        }
    }
  for (const { step, from, to } of spans)
    for (const asked of observed.asked)
      if (asked.step === step && asked.seq >= from && asked.seq < to)
        wrong.push(`the step ${step} was run again though its result was stored`);
  return wrong;
}
