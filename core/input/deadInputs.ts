/**
 * The keys by which an agent remembers inputs that exhausted their attempts. The input's own key is
 * not one of them: when the provider or an operator sends the input again, it runs again. The
 * delivery and the waiting caller are remembered, because the host and the gateway may both have
 * stored one `DirectInput`, and the other copy must not run either.
 */
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { DEAD_PREFIX, type DoneSet } from "../journal/DoneSet.ts";
import type { InputHandle } from "../inbox/Inbox.ts";

export const deadKeys = (
  { seq }: InputHandle,
  { key, reply }: InboxHead,
  undone: boolean,
): ReadonlyArray<string> => [
  ...(seq === 0 ? [] : [keyOfDelivery(seq)]),
  ...(reply === undefined ? [] : [keyOfReply(reply.id)]),
  ...(undone ? [keyOfUndone(key)] : []),
];

/**
 * What tells a death of the input from that of the same input when it is sent again. Copies of one
 * `DirectInput` have the same.
 */
export function deathOf({ seq }: InputHandle, head?: InboxHead): string | undefined {
  if (head?.reply !== undefined) return keyOfReply(head.reply.id);
  return seq === 0 ? undefined : keyOfDelivery(seq);
}

/**
 * If an earlier copy of the input died and its steps were undone, a copy that the provider sends
 * again has new idempotency keys, like a redrive.
 */
export function asSentAgain(done: DoneSet, head: InboxHead): InboxHead {
  if (!done.hasDead || head.redrive !== undefined) return head;
  const redrive = done.seqOf(keyOfUndone(head.key));
  return redrive === undefined ? head : { ...head, redrive };
}

export function isDead(done: DoneSet, { seq }: InputHandle, { reply }: InboxHead): boolean {
  if (!done.hasDead) return false;
  if (seq !== 0 && done.seqOf(keyOfDelivery(seq)) !== undefined) return true;
  return reply !== undefined && done.seqOf(keyOfReply(reply.id)) !== undefined;
}

const keyOfUndone = (key: string): string => `${DEAD_PREFIX}undone:${key}`;
const keyOfDelivery = (seq: number): string => `${DEAD_PREFIX}${seq}`;
const keyOfReply = (id: string): string => `${DEAD_PREFIX}reply:${id}`;
