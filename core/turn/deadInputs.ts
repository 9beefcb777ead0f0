/**
 * What an agent remembers of inputs that exhausted their attempts. Not their key: when the provider (or an operator) sends one
 * again, it runs again. But the delivery, or for one that was not stored who waits for it: a copy may lie in the inbox yet.
 */
import type { InboxHead } from "../../schemas/InboxEnvelope.ts";
import type { DoneSet } from "./DoneSet.ts";
import type { InputHandle } from "./Mailbox.ts";

export const deadKey = ({ seq }: InputHandle, { reply }: InboxHead): string =>
  seq === 0 && reply !== undefined ? keyOfReply(reply.id) : keyOfDelivery(seq);

export function isDead(done: DoneSet, { seq }: InputHandle, { reply }: InboxHead): boolean {
  if (done.size === 0) return false;
  if (seq !== 0 && done.seqOf(keyOfDelivery(seq)) !== undefined) return true;
  return reply !== undefined && done.seqOf(keyOfReply(reply.id)) !== undefined;
}

const keyOfDelivery = (seq: number): string => `dead:${seq}`;
const keyOfReply = (id: string): string => `dead:reply:${id}`;
