/**
 * Quarantine marks, in the streams of snapshots on a subject of their own (`Subjects.quarantine`):
 * hosts may write there, and the marks are as many and as durable as the installation's copies.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import {
  Quarantines,
  type MarkedAgent,
  type QuarantinesShape,
} from "../../core/quarantine/Quarantines.ts";
import { ifReadable } from "../../schemas/Frame.ts";
import {
  decodeQuarantineMark,
  encodeQuarantineMark,
  type QuarantineMark,
} from "../../schemas/QuarantineMark.ts";
import { unavailable } from "./client/JetStreamApi.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { readAddress } from "./readAddress.ts";

export function makeNatsQuarantines(nats: NatsShape): QuarantinesShape {
  const { subjects, reader, publisher } = nats;
  return {
    put: async (id, mark) => {
      const outcome = await publisher.publish(subjects.quarantine(id), encodeQuarantineMark(mark));
      if (outcome._tag !== "Stored") throw new BrokerUnavailable({ message: outcome.message });
    },
    list: async () => {
      // By subject: the stream keeps the one before, too.
      const found = new Map<string, MarkedAgent>();
      try {
        for (const stream of subjects.streamsOf("snapshots"))
          for await (const { subject, data } of reader.messages(stream, subjects.quarantines, {
            fromSeq: 1,
          })) {
            const mark = readMark(data);
            const id = mark === undefined ? undefined : readAddress(nats, subject);
            if (mark !== undefined && id !== undefined) found.set(subject, { id, mark });
          }
        return [...found.values()];
      } catch (error) {
        throw unavailable(error);
      }
    },
  };
}

/** A damaged mark is ignored, since it would quarantine its agent for ever. */
const readMark = (data: Uint8Array): QuarantineMark | undefined =>
  ifReadable(() => decodeQuarantineMark(data));

export const layer: Layer.Layer<Quarantines, never, Nats> = Layer.effect(
  Quarantines,
  Effect.map(Nats, makeNatsQuarantines),
);
