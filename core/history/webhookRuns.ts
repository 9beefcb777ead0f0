/**
 * Finds in a journal the webhooks that are over, and for each event that ends some where they would
 * begin if they ran again. Pure but for the reading; `pastWebhooks` rebuilds the agent there.
 *
 * 1. An input begins before its first event. Events of failed attempts that wrote nothing but the
 *    failure are passed over: it then begins before its last one, as it was when other turns had
 *    come between.
 * 2. What can't be told apart from other turns' writes is an obstacle: an event that other inputs
 *    wrote too, of which the journal has no bodies, or which go on; attempts that wrote, with events
 *    of other turns between.
 * 3. An event that takes back what a turn wrote (`undone`) begins it anew.
 */
import type { AgentId, Sequence } from "../../schemas/Address.ts";
import {
  decodeEvent,
  type Cause,
  type JournalHead,
  type TurnRecord,
} from "../../schemas/JournalEvent.ts";
import type { JournalShape } from "../journal/Journal.ts";

export interface WebhookRun {
  /** The event that ends the webhooks. */
  readonly seq: number;
  /** They begin with the agent as it was before this event. */
  readonly fromSeq: number;
  /** As they came. */
  readonly causes: ReadonlyArray<Cause>;
  /** The last attempts' errors. */
  readonly errors: ReadonlyArray<string>;
  /** An attempt failed, or more. */
  readonly failed: boolean;
  /** Rule 2; undefined: it can be run again. */
  readonly obstacle: string | undefined;
}

/** What is known of an input that is not over. */
interface Open {
  readonly fromSeq: number;
  readonly wrote: boolean;
  readonly failed: boolean;
  /** Other turns have committed since. */
  readonly others: boolean;
}

export const isWebhook = ({ cause }: { readonly cause: Cause }): boolean =>
  cause.kind === "webhook";

/** In order. Rejects as `Journal.read`. */
export async function* webhookRuns(
  id: AgentId,
  { read }: Pick<JournalShape, "read">,
): AsyncGenerator<WebhookRun> {
  const open = new Map<string, Open>();
  for await (const { seq, data } of read(id, { fromSeq: 1 as Sequence })) {
    const { head } = decodeEvent(data);
    const run = runOf(seq, head, open);
    follow(seq, head, open);
    if (run !== undefined) yield run;
  }
}

/** Undefined: the event ends no webhook. */
function runOf(
  seq: number,
  head: JournalHead,
  open: ReadonlyMap<string, Open>,
): WebhookRun | undefined {
  const ended = head.turns.filter((turn) => isWebhook(turn) && isOver(turn));
  if (ended.length === 0) return undefined;
  const known = ended.flatMap(({ cause }) => open.get(cause.id!) ?? []);
  const wrote = known.find((input) => input.wrote);
  return {
    seq,
    fromSeq: wrote === undefined ? seq : wrote.fromSeq,
    causes: ended.map(({ cause }) => cause),
    errors: ended.flatMap(({ error }) => error ?? []),
    failed: known.some(({ failed }) => failed) || ended.some(isFailure),
    obstacle: obstacleOf(head, ended, wrote),
  };
}

/** Rule 2. */
function obstacleOf(
  { turns }: JournalHead,
  ended: ReadonlyArray<TurnRecord>,
  wrote: Open | undefined,
): string | undefined {
  const other = turns.find((turn) => !ended.includes(turn) && turn.cause.kind !== "start");
  if (other !== undefined)
    return isWebhook(other)
      ? "it shares its commit with a webhook that went on"
      : `it shares its commit with a ${other.cause.kind}`;
  if (wrote === undefined) return undefined;
  if (ended.length > 1) return "it wrote in an earlier commit, and shares its last with others";
  return wrote.others ? "it wrote in several commits, with other turns between" : undefined;
}

function follow(seq: number, head: JournalHead, open: Map<string, Open>): void {
  const ids = new Set(head.turns.map(({ cause }) => cause.id));
  for (const [key, input] of open)
    if (!ids.has(key) || ids.size > 1) open.set(key, { ...input, others: true });
  const changes = (turn: TurnRecord): boolean =>
    turn.state !== undefined ||
    turn.sql !== undefined ||
    (turn.steps?.length ?? 0) > 0 ||
    // These are the event's and not one turn's: taken for each one's.
    head.pages !== undefined ||
    head.schedules !== undefined ||
    head.queue !== undefined;
  for (const turn of head.turns) {
    const key = turn.cause.id;
    if (key === undefined || !isWebhook(turn)) continue;
    if (isOver(turn) || turn.undone === true) open.delete(key);
    else {
      const { fromSeq, wrote, failed, others } = open.get(key) ?? { fromSeq: seq, wrote: false, failed: false, others: false }; // prettier-ignore
      open.set(key, {
        fromSeq,
        wrote: wrote || changes(turn),
        failed: failed || isFailure(turn),
        others,
      });
    }
  }
}

const isOver = ({ cause, done = [], dead, begun }: TurnRecord): boolean =>
  cause.id !== undefined && begun !== true && (done.includes(cause.id) || dead === true);

const isFailure = ({ error, dead, cause: { attempt = 1 } }: TurnRecord): boolean =>
  error !== undefined || dead === true || attempt > 1;
