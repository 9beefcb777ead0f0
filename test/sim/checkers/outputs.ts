/** I9, I10, I13, I14: what others see, who may change something, in which order. */
import type { Violations } from "../../kit/checkers.ts";
import type { RunHistory } from "../rig/RunHistory.ts";
import { keyOfId } from "./effects.ts";
import { statesOf, type StatesOf } from "./states.ts";

/** Before anything set it. Seeded by a read, and replaced in that commit by the next write. */
const INITIAL: Readonly<Record<string, string>> = {
  Ledger: '{"count":0}',
  Board: '{"note":"","n":0}',
};

/** I9: clients see no state that the journal lacks, in order, and all have the last at rest. */
export function checkClientsSeeWhatIsStored(run: RunHistory): Violations {
  const wrong: string[] = [];
  const states = new Map<string, StatesOf>();
  for (const history of run.agents)
    states.set(`${history.id.class} ${history.id.name}`, statesOf(history));
  for (const { name, className, agent, states: seen, acked, open, wrote } of run.observed
    .connections) {
    const stored = states.get(`${className} ${agent}`);
    let before = 0;
    for (const { state, seq } of seen) {
      if (seq < before) wrong.push(`${name} of ${agent}: state ${seq} came after state ${before}`);
      before = seq;
      const text = JSON.stringify(state);
      if (
        stored?.within.get(seq)?.has(text) !== true &&
        text !== INITIAL[className] &&
        text !== "null"
      )
        wrong.push(`${name} of ${agent} saw ${text} at ${seq}, which was never stored`);
    }
    for (const note of acked)
      if (
        stored?.after.some((text) => text?.includes(note)) !== true &&
        ![...(stored?.within.values() ?? [])].some((texts) =>
          [...texts].some((t) => t.includes(note)),
        )
      )
        wrong.push(`${name}: the note ${note} was taken and never stored`);
    const last = seen.at(-1);
    const server = stored?.after.at(-1);
    const isOwn = wrote.some((note) => server?.includes(note));
    // Each start of an agent that has stored nothing sets the initial state again.
    const atRest = server ?? (stored === undefined ? INITIAL[className] : undefined);
    if (open && !isOwn && last !== undefined && JSON.stringify(last.state) !== atRest)
      wrong.push(
        `${name} of ${agent} has ${JSON.stringify(last.state)} at rest, the server ${atRest}`,
      );
  }
  return wrong;
}

/** I14: a connection's messages are processed, and answered, in their order and without a gap. */
export function checkMessagesKeepTheirOrder(run: RunHistory): Violations {
  const wrong: string[] = [];
  const firsts = new Map<string, ReadonlyMap<string, number>>();
  for (const history of run.agents) {
    const texts = [...statesOf(history).within.values()].flatMap((within) => [...within]);
    firsts.set(`${history.id.class} ${history.id.name}`, firstOf(texts.flatMap(notesIn)));
  }
  for (const { name, className, agent, sent, acked } of run.observed.connections) {
    const stored = firsts.get(`${className} ${agent}`) ?? new Map<string, number>();
    for (const [what, places] of [
      ["stored", stored],
      ["answered", firstOf(acked)],
    ] as const) {
      const found = sent.filter((note) => places.has(note));
      // Whoever runs a message has run those before it; states of one's own are not answered.
      if (places === stored && found.length > 0)
        for (const note of sent.slice(0, sent.lastIndexOf(found.at(-1)!)))
          if (!places.has(note)) wrong.push(`${name}: ${note} was passed over by ${found.at(-1)}`);
      for (const [n, note] of found.entries())
        if (n > 0 && places.get(note)! < places.get(found[n - 1]!)!)
          wrong.push(`${name}: ${note} was ${what} before ${found[n - 1]}, which it sent before`);
    }
  }
  return wrong;
}

const notesIn = (state: string): ReadonlyArray<string> => state.match(/x\d+-\d+/g) ?? [];

function firstOf(items: ReadonlyArray<string>): ReadonlyMap<string, number> {
  const first = new Map<string, number>();
  for (const [n, item] of items.entries()) if (!first.has(item)) first.set(item, n);
  return first;
}

/** I10: forged webhooks are refused, and neither they nor readonly connections leave a trace. */
export function checkForbiddenLeavesNothing(run: RunHistory): Violations {
  const wrong = run.observed.forged
    .filter((status) => ![0, 401, 503].includes(status))
    .map((status) => `a forged webhook was answered ${status}`);
  const forbidden = new Set(run.observed.forbidden);
  for (const { id, events } of run.agents)
    for (const { seq, head } of events) {
      const text = JSON.stringify(head.turns.map(({ state, done }) => [state, done]));
      for (const found of text.matchAll(/x\d+-\d+/g))
        if (forbidden.has(found[0])) wrong.push(`${id.name} event ${seq} holds ${found[0]}`);
    }
  return wrong;
}

/** I13: a webhook is sent only for a stored turn, and always under the same key. */
export function checkSentIsStored(run: RunHistory): Violations {
  const wrong: string[] = [];
  const asked = new Map<string, number>();
  for (const { events } of run.agents)
    for (const { head, storedMs } of events)
      for (const item of (head.queue?.put ?? []) as ReadonlyArray<{ readonly id: string }>)
        if (!asked.has(item.id)) asked.set(item.id, storedMs);
  const keys = new Map<string, string>();
  for (const { idempotencyKey, input, atMs } of run.observed.posts) {
    const storedMs = asked.get(idempotencyKey);
    if (storedMs === undefined) wrong.push(`${idempotencyKey} was sent and never stored`);
    else if (storedMs > atMs) wrong.push(`${idempotencyKey} was sent before it was stored`);
    const before = keys.get(input) ?? idempotencyKey;
    if (before !== idempotencyKey)
      wrong.push(`${keyOfId(input)} sent one webhook under ${before} and ${idempotencyKey}`);
    keys.set(input, before);
  }
  return wrong;
}
