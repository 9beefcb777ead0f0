/**
 * What an owner does about an agent whose journal is empty. `Committer` calls it.
 *
 * A name that was only asked for leaves nothing, so there is no `claimed` event to refuse an older
 * owner's first event, which may still be on its way. Such an event was told to nobody
 * (`Committer`, 2), and may count as stored whenever its successor notices it: when an append of
 * its own is refused, at the next activation, and here.
 */
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import type { Epoch, Sequence } from "../../schemas/Address.ts";
import type { TimeShape } from "../time/Time.ts";
import type { AgentImage } from "./AgentImage.ts";
import type { AppendResult, StoredEvent } from "./Journal.ts";
import { applyEvent } from "./applyEvent.ts";
import { claimOf } from "./claimOf.ts";

/** The part of `CommitterHost` that this takes. */
export interface JournalOwner {
  readonly image: AgentImage;
  readonly time: TimeShape;
  readonly host: string;
  readonly epoch: Epoch;
  readonly append: (data: Uint8Array, expectedSeq: Sequence) => Promise<AppendResult>;
  /** The journal's last event. Rejects with `BrokerUnavailable`. */
  readonly last: () => Promise<StoredEvent | undefined>;
}

/**
 * An agent in memory looks again when it tells something after this time. Each look is a read of
 * the broker, which agents that never write (an echo, a proxy) must not pay for each answer.
 */
export const LOOK_AGAIN_MS = 1000;

/**
 * False: there is an event. A broker that can't be asked changes nothing: what is told is right all
 * the same.
 */
export const isStillEmpty = (host: JournalOwner): Promise<boolean> =>
  host.last().then(
    (last) => last === undefined,
    () => true,
  );

/** Stores a `claimed` event: from then on no older owner's is stored. */
export async function claimEmpty(host: JournalOwner): Promise<AppendResult> {
  const { image } = host;
  const head = claimOf(image.id, { ...ownerOf(host), after: image.seq });
  const result = await host.append(encodeEvent(head), image.seq);
  if (result._tag === "Stored") applyEvent(image, result.seq, head);
  return result;
}

const ownerOf = ({ host, epoch, time }: JournalOwner) => ({ host, epoch, time });
