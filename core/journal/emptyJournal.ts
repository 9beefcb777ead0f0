/**
 * What an owner does about an agent whose journal is empty. `Committer` calls it.
 *
 * A name that was only looked up stores nothing, so no `claimed` event refuses the first event of
 * an older owner, which may still be on its way. Nobody was notified of such an event (`Committer`,
 * rule 2), so it may count as stored whenever the successor notices it: when its own append is
 * refused, at the next activation, and here.
 */
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import type { Epoch, Sequence } from "../../schemas/Address.ts";
import type { TimeShape } from "../time/Time.ts";
import type { AgentImage } from "./AgentImage.ts";
import type { AppendResult, StoredEvent } from "./Journal.ts";
import { applyEvent } from "./applyEvent.ts";
import { claimOf } from "./claimOf.ts";
import type { Commit } from "./encodeCommit.ts";

/** The part of `CommitterHost` that this takes. */
export interface JournalOwner {
  readonly image: AgentImage;
  readonly time: TimeShape;
  readonly host: string;
  readonly epoch: Epoch;
  /** `commit`: its head, its state and its bytes; `expectedSeq`: the image's. */
  readonly append: (commit: Commit, expectedSeq: Sequence) => Promise<AppendResult>;
  /** The journal's last event. Rejects with `BrokerUnavailable`. */
  readonly last: () => Promise<StoredEvent | undefined>;
}

/**
 * An agent in memory looks again when it answers after this time. Each look reads from the broker,
 * which agents that never write (an echo, a proxy) must not pay for with each answer.
 */
export const LOOK_AGAIN_MS = 1000;

/** False: there is an event. True without a broker: an older owner's may count as stored. */
export const isStillEmpty = (host: JournalOwner): Promise<boolean> =>
  host.last().then(
    (last) => last === undefined,
    () => true,
  );

/** Stores a `claimed` event. From then on no event of an older owner is stored. */
export async function claimEmpty(host: JournalOwner): Promise<AppendResult> {
  const { image } = host;
  const head = claimOf(image.id, { ...ownerOf(host), after: image.seq });
  const result = await host.append({ data: encodeEvent(head), head }, image.seq);
  if (result._tag === "Stored") applyEvent(image, result.seq, head);
  return result;
}

const ownerOf = ({ host, epoch, time }: JournalOwner) => ({ host, epoch, time });
