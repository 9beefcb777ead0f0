/** I1 and I13 for mail: processed once, and sent only if a turn asked. Returns findings. */
import { MAIL_KEYS } from "../../../core/journal/laneKeys.ts";
import type { Cause } from "../../../schemas/JournalEvent.ts";
import type { Violations } from "../../kit/checkers.ts";
import type { AgentHistory, RunHistory } from "../rig/RunHistory.ts";
import { mailOrderOf } from "../simMail.ts";

const ledgers = ({ agents, observed }: RunHistory): AgentHistory[] =>
  agents.filter(({ id }) => id.class === "Ledger" && !observed.damaged.has(id.name));

/** I1: a mail that was answered 250 is done exactly once, or dead; two are never merged. */
export function checkMailIsAppliedOnce(run: RunHistory): Violations {
  const wrong: string[] = [];
  const done = new Map<string, number>();
  const dead = new Set<string>();
  for (const { id, events } of ledgers(run)) {
    const bodies = new Bodies();
    for (const { head } of events)
      for (const { cause, done: keys = [], dead: isDead } of head.turns) {
        const order = cause.kind === "mail" ? mailOrderOf(bodies.of(cause)) : undefined;
        if (order === undefined || keys.length === 0) continue;
        if (isDead === true) dead.add(order.id);
        else done.set(order.id, (done.get(order.id) ?? 0) + 1);
        if (run.observed.mailsIn.get(order.id)?.agent !== id.name)
          wrong.push(`${id.name}: mail ${order.id} was done and never sent to it`);
      }
  }
  for (const [id, times] of done) if (times > 1) wrong.push(`mail ${id} was done ${times} times`);
  for (const [id, { agent, answers }] of run.observed.mailsIn)
    if (answers.includes("Accepted") && !done.has(id) && !dead.has(id))
      wrong.push(
        `mail ${id} to ${agent} was answered ${answers.join()}; it is neither done nor dead`,
      );
  return wrong;
}

/**
 * I13: a mail is sent only for a stored turn, and always under one Message-ID; mail that a stored
 * turn asked for is sent, unless its agent was destroyed before or the job is dead.
 */
export function checkMailSentIsStored(run: RunHistory): Violations {
  const wrong: string[] = [];
  const asked = new Map<string, number>();
  const due = new Map<string, string>();
  for (const { id: agent, events } of ledgers(run)) {
    const own = new Set<string>();
    const bodies = new Bodies();
    for (const { head, storedMs } of events) {
      // With it goes what was not sent yet.
      if (head.kind === "destroyed") own.clear();
      for (const item of (head.queue?.put ?? []) as ReadonlyArray<Item>) {
        if (item.callback !== "sendEmail") continue;
        if (!asked.has(item.payload.id)) asked.set(item.payload.id, storedMs);
        own.add(item.payload.id);
      }
      for (const { cause, dead } of head.turns)
        if (cause.id?.startsWith(`${MAIL_KEYS}:`) === true) {
          const body = bodies.of(cause);
          if (dead === true) own.delete((JSON.parse(body ?? "{}") as { id: string }).id);
        }
    }
    for (const id of own) due.set(id, agent.name);
  }
  const ids = new Map<string, string>();
  for (const { id, text, atMs } of run.observed.mailsOut) {
    due.delete(id);
    const storedMs = asked.get(id);
    if (storedMs === undefined) wrong.push(`the mail ${id} was sent and never stored`);
    else if (storedMs > atMs) wrong.push(`the mail ${id} was sent before it was stored`);
    const before = ids.get(text) ?? id;
    if (before !== id) wrong.push(`mail ${text} was answered as ${before} and as ${id}`);
    ids.set(text, before);
  }
  return [
    ...wrong,
    ...[...due].map(([id, agent]) => `${agent}: the mail ${id} was stored and never sent`),
  ];
}

/** One that waits in the mail lane. */
interface Item {
  readonly callback: string;
  readonly payload: { readonly id: string };
}

/** Only the first event of a run has its body. */
class Bodies {
  private readonly byKey = new Map<string, string>();

  of({ id = "", body }: Cause): string | undefined {
    if (body !== undefined) this.byKey.set(id, body);
    return body ?? this.byKey.get(id);
  }
}
