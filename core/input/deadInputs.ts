/**
 * What an agent remembers of inputs that exhausted their attempts. Not their key: when the provider (or an operator) sends one
 * again, it runs again. But the delivery, and who waits for it: its host and its gateway may both have stored what was
 * given unstored (`DirectInput`), and the other copy is not to run either.
 */
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import { DEAD_PREFIX, type DoneSet } from "../journal/DoneSet.ts";
import type { InputHandle } from "../inbox/Inbox.ts";

export const deadKeys = ({ seq }: InputHandle, { reply }: InboxHead): ReadonlyArray<string> => [
  ...(seq === 0 ? [] : [keyOfDelivery(seq)]),
  ...(reply === undefined ? [] : [keyOfReply(reply.id)]),
];

export function isDead(done: DoneSet, { seq }: InputHandle, { reply }: InboxHead): boolean {
  if (!done.hasDead) return false;
  if (seq !== 0 && done.seqOf(keyOfDelivery(seq)) !== undefined) return true;
  return reply !== undefined && done.seqOf(keyOfReply(reply.id)) !== undefined;
}

const keyOfDelivery = (seq: number): string => `${DEAD_PREFIX}${seq}`;
const keyOfReply = (id: string): string => `${DEAD_PREFIX}reply:${id}`;
