/** I22: budgets and undos. Returns its findings as text. */
import type { Violations } from "../../kit/checkers.ts";
import { spentBy } from "../Payer.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import type { Order } from "../subjects.ts";
import { orderOf } from "./effects.ts";

interface Payment {
  readonly order: Order;
  /** Parts of it whose steps are done, and those that are undone, in the order of the journal. */
  readonly bought: number[];
  readonly undone: Array<{ readonly part: number; readonly seq: number }>;
  /** Attempts that have ended. What each wrote stays. */
  attempts: number;
  /** Its input is done or dead with that event. */
  end?: { readonly seq: number; readonly dead: boolean; readonly isExhausted: boolean };
}

/**
 * I22: a budget counts what done inputs have spent, once, and nothing of dead inputs. No
 * reservation outlives its input. Only the steps of dead inputs are undone, the last one first. An
 * undo that has ended does not run again. Each attempt that has ended has written its bill, once.
 */
export function checkPaymentsEnd({ agents, observed }: RunHistory): Violations {
  const payers = agents.filter(({ id }) => id.class === "Payer");
  return payers.flatMap((history) => {
    const { name } = history.id;
    if (history.refused !== undefined) return [`${name} can't be rebuilt: ${history.refused}`];
    const payments = paymentsOf(history);
    const wrong = payments.flatMap(wrongOf);
    for (const { order, undone, end } of payments)
      for (const { part, seq } of undone)
        if (
          observed.asked.some(
            (asked) =>
              asked.step === `undo ${order.id} ${part}` &&
              asked.seq >= seq &&
              asked.seq < (end?.seq ?? seq),
          )
        )
          wrong.push(`the undo of part ${part} of ${order.id} was run again though it had ended`);
    if (payments.some(({ end }) => end === undefined)) return wrong;
    wrong.push(...wrongBills(payments, history.bills ?? []));
    const spent = payments
      .filter(({ end }) => end?.dead === false)
      .reduce((sum, { order }) => sum + spentBy(order), 0);
    const used = Number(history.used ?? 0);
    if (used !== spent) wrong.push(`${name} has spent ${used}, and its done inputs ${spent}`);
    if ((history.reserved ?? 0) !== 0)
      wrong.push(`${name} has ${history.reserved} reservations, and no input that made them`);
    return wrong;
  });
}

function wrongOf({ order: { id }, bought, undone, end }: Payment): string[] {
  // One whose hosts died is not run again, and only its code knows how to undo.
  if (end === undefined || end.isExhausted) return [];
  const parts = undone.map(({ part }) => part).join();
  const whole = end.dead ? bought.toSorted((a, b) => b - a).join() : "";
  return parts === whole
    ? []
    : [`${id} (${end.dead ? "dead" : "done"}) undid the parts [${parts}], and not [${whole}]`];
}

function wrongBills(payments: ReadonlyArray<Payment>, bills: ReadonlyArray<string>): string[] {
  return [...new Set(payments.map(({ order }) => order.id))].flatMap((id) => {
    const wrote = bills.filter((order) => order === id).length;
    const ended = payments
      .filter(({ order }) => order.id === id)
      .reduce((sum, { attempts }) => sum + attempts, 0);
    return wrote === ended ? [] : [`${id} wrote ${wrote} bills in ${ended} attempts`];
  });
}

/** A provider that sends a webhook again once it is dead begins another payment. */
function paymentsOf({ events }: AgentHistory): Payment[] {
  const payments: Payment[] = [];
  const last = new Map<string, Payment>();
  for (const { head, seq } of events)
    for (const { cause, steps = [], done = [], dead, error } of head.turns) {
      const key = cause.id ?? "";
      const order = orderOf(cause.body);
      let payment = last.get(key);
      if (order !== undefined && (payment === undefined || payment.end !== undefined)) {
        payment = { order, bought: [], undone: [], attempts: 0 };
        payments.push(payment);
        last.set(key, payment);
      }
      if (payment === undefined) continue;
      for (const step of steps) {
        const [, undo, part] = /^(undo )?(\d+):buy$/.exec(step.key) ?? [];
        if (part === undefined) continue;
        if (undo !== undefined) payment.undone.push({ part: Number(part), seq });
        else payment.bought.push(Number(part));
      }
      const isExhausted = error?.startsWith("its attempts are exhausted") === true;
      if (!isExhausted && (error !== undefined || done.length > 0)) payment.attempts++;
      if (done.length > 0) payment.end ??= { seq, dead: dead === true, isExhausted };
    }
  return payments;
}
