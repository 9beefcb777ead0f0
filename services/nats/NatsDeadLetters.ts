/**
 * Dead letters in a stream of their own, one subject per agent. A letter's `seq` is its sequence in
 * the stream. The server recognizes a stored letter by the id of its message. A letter past the
 * payload limit is a claim check (`claimCheck.ts`). `get` and `remove` ask the stream's leader,
 * because a letter's absence matters to them.
 */
import { createHash } from "node:crypto";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Blobs, type BlobsShape } from "../../core/journal/Blobs.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import {
  DeadLetters,
  type DeadLettersShape,
  type StoredDeadLetter,
} from "../../core/dead/DeadLetters.ts";
import type { Sequence } from "../../schemas/Address.ts";
import { findClaimCheck, newClaimCheck, resolveOrKeep } from "./layout/claimCheck.ts";
import { ApiRefusal, orUnavailable, unavailable } from "./client/JetStreamApi.ts";
import { headers } from "./client/ReplyInbox.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import type { StoredMessage } from "./client/StreamReading.ts";
import { readAddress } from "./readAddress.ts";

export function makeNatsDeadLetters(nats: NatsShape, blobs: BlobsShape): DeadLettersShape {
  return {
    put: (id, data, death) =>
      orUnavailable(async () => {
        const big =
          data.length > nats.messageBytesMax ? newClaimCheck("dead", id, data) : undefined;
        if (big !== undefined) await blobs.put(big.check.blob, data);
        const message = big?.frame ?? data;
        const subject = nats.subjects.dead(id);
        const outcome = await nats.publisher.publish(
          subject,
          message,
          death === undefined ? {} : { headers: headers(["Nats-Msg-Id", idOf(subject, death)]) },
        );
        if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
        // A blob that remains only takes up space.
        if (outcome.duplicate && big !== undefined)
          await blobs.remove(big.check.blob).catch(() => undefined);
      }),
    count: () =>
      orUnavailable(async () => {
        const { state } = await nats.api.call<{ state: { messages: number } }>(
          `STREAM.INFO.${nats.subjects.stream.dead}`,
        );
        return state.messages;
      }),
    list: (className) => list(nats, blobs, className),
    get: (seq) =>
      orUnavailable(async () => {
        const found = await nats.reader.byLeader(nats.subjects.stream.dead, { seq });
        return found === undefined ? undefined : await toLetter(nats, blobs, found);
      }),
    remove: (seq) => orUnavailable(() => remove(nats, blobs, seq)),
  };
}

/** The text comes from outside, and may be long. */
const idOf = (subject: string, death: string): string =>
  createHash("sha256")
    .update(JSON.stringify([subject, death]))
    .digest("base64url");

async function* list(
  nats: NatsShape,
  blobs: BlobsShape,
  className: string | undefined,
): AsyncGenerator<StoredDeadLetter, void, void> {
  const { dead } = nats.subjects.stream;
  try {
    for await (const found of nats.reader.messages(dead, nats.subjects.deadOf(className), {
      fromSeq: 1,
    })) {
      const letter = await toLetter(nats, blobs, found);
      if (letter !== undefined) yield letter;
    }
  } catch (error) {
    throw unavailable(error);
  }
}

async function toLetter(
  nats: NatsShape,
  blobs: BlobsShape,
  { seq, subject, data }: StoredMessage,
): Promise<StoredDeadLetter | undefined> {
  const id = readAddress(nats, subject);
  // A letter whose bytes are lost can still be listed and removed.
  return id === undefined ? undefined : { seq, id, data: await resolveOrKeep(blobs, data) };
}

async function remove(nats: NatsShape, blobs: BlobsShape, seq: Sequence): Promise<boolean> {
  const { dead } = nats.subjects.stream;
  const found = await nats.reader.byLeader(dead, { seq });
  if (found === undefined) return false;
  try {
    await nats.api.call(`STREAM.MSG.DELETE.${dead}`, { seq, no_erase: true });
  } catch (error) {
    // Another process may have removed it meanwhile.
    const gone =
      error instanceof ApiRefusal && (await nats.reader.byLeader(dead, { seq })) === undefined;
    if (gone) return false;
    throw error;
  }
  // The blob of a damaged claim check is unknown. `agents erase` finds it by its name's prefix.
  const check = findClaimCheck(found.data);
  // A blob that remains only takes up space.
  if (check !== undefined) await blobs.remove(check.blob).catch(() => undefined);
  return true;
}

export const layer: Layer.Layer<DeadLetters, never, Nats | Blobs> = Layer.effect(
  DeadLetters,
  Effect.gen(function* () {
    return makeNatsDeadLetters(yield* Nats, yield* Blobs);
  }),
);
