/**
 * The base of a trimmed journal as an event, which replaces the trimmed events in files and in
 * journals of new agents.
 */
import type { Read } from "../../../core/journal/Beginnings.ts";
import { eventOfBase } from "../../../core/journal/eventOfBase.ts";
import type { StoredEvent } from "../../../core/journal/Journal.ts";
import type { Sequence } from "../../../schemas/Address.ts";

export const baseAsEvent = ({
  base,
  restarts,
}: Extract<Read, { readonly _tag: "Base" }>): StoredEvent => ({
  seq: base.head.seq as Sequence,
  storedMs: base.head.time,
  data: eventOfBase(base, { restarts }),
});
