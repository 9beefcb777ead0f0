/**
 * The bus over core NATS. Requests use `ReplyInbox`: one subscription receives all replies, and a
 * broken connection ends them at once. Messages that are published while the broker is unreachable
 * are dropped: the client would keep them without a bound. Messages for a subject on which only
 * this process listens stay in it (`InProcessListeners`). Calls travel in batches
 * (`RequestBatcher`).
 *
 * A process has two reply addresses, each with its own batcher, because a process that is asked
 * learns the asker's address. Calls, which only hosts receive, use `answers`; all else uses
 * `callers`. A gateway can therefore not forge an answer to a host's own call.
 *
 * An answer has the rights of the process that answers. A request that wants it anywhere but at an
 * answer address is dropped.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type { Msg } from "@nats-io/nats-core";
import { Bus, type BusReply, type BusShape } from "../../core/bus/Bus.ts";
import { InProcessListeners } from "./InProcessListeners.ts";
import { Nats, type NatsShape } from "./client/Nats.ts";
import { payloadBytesMax } from "./client/NatsConnection.ts";
import { RequestBatcher, type SeparateRequests } from "./RequestBatcher.ts";
import { isNoResponders, notPermitted, plain, type ReplyInbox } from "./client/ReplyInbox.ts";
import { subscribe } from "./client/subscribe.ts";

/** Constant, so that a sender of many is one line and a count (`RepeatedLines`). */
const FOREIGN_REPLY = "it wants its answer where nobody receives answers";

export function makeNatsBus(nats: NatsShape): BusShape {
  const { connection, subjects, answers, callers } = nats;
  const { client } = connection;
  const checkSize = (subject: string, data: Uint8Array): void => {
    const bytesMax = payloadBytesMax(connection);
    if (data.length > bytesMax)
      throw new RangeError(
        `${data.length} bytes to ${subject}: the broker's limit is ${bytesMax} bytes a message`,
      );
  };
  const listeners = new InProcessListeners();
  const batcherOf = (inbox: ReplyInbox): RequestBatcher =>
    new RequestBatcher({ connection, subjects, answers: inbox }, (subject) =>
      listeners.find(subject),
    );
  const calls = { inbox: answers, batcher: batcherOf(answers) };
  const rest = { inbox: callers, batcher: batcherOf(callers) };
  const publish: BusShape["publish"] = (subject, data, reply) => {
    checkSize(subject, data);
    if (listeners.publish(subject, data, reply)) return;
    if (!connection.connected()) return;
    client.publish(subject, data, reply === undefined ? {} : { reply });
  };
  return {
    get payloadBytesMax() {
      return payloadBytesMax(connection);
    },
    connected: connection.connected,
    onReconnected: (f) => connection.onChange((up) => up && f()),
    publish,
    answer: (reply, data) => {
      if (!rest.batcher.answer(reply, data)) publish(reply, data);
    },
    subscribe: (...wanted) => subscribeTo({ nats, listeners, batcher: rest.batcher }, ...wanted),
    request: (subject, data, options) => {
      checkSize(subject, data);
      const { inbox, batcher } = subjects.isForHosts(subject) ? calls : rest;
      return (
        listeners.request(subject, data, options) ??
        batcher.request(subject, data, options) ??
        requestAlone(inbox, subject, data, options)
      );
    },
  };
}

interface Receiver {
  readonly nats: NatsShape;
  readonly listeners: InProcessListeners;
  /** The batcher that answers what the subscription receives. */
  readonly batcher: RequestBatcher;
}

function subscribeTo(
  { nats, listeners, batcher }: Receiver,
  ...[subject, handler, options]: Parameters<BusShape["subscribe"]>
): ReturnType<BusShape["subscribe"]> {
  const { connection, subjects } = nats;
  const alone = options?.alone === true;
  const removeListener = alone ? listeners.add(subject, handler) : undefined;
  const separateRequests: SeparateRequests = new Map();
  const receive = (error: Error | null, message: Msg): void => {
    if (error !== null) {
      connection.log("error", "a subscription has ended", { subject, error: String(error) });
      return;
    }
    const reply = message.reply === "" ? undefined : message.reply;
    if (reply !== undefined && !subjects.isAnswerAddress(reply))
      return connection.log("warn", "a request was dropped", {
        why: FOREIGN_REPLY,
        subject,
        reply,
      });
    // An offer comes before the answer to the request that it names.
    if (alone && reply !== undefined) batcher.countSeparate(subject, reply, separateRequests);
    handler({ subject: message.subject, data: plain(message.data), reply });
  };
  const queue = options?.queue;
  const group = queue === undefined ? {} : { queue };
  const subscription = subscribe(connection.client, subject, receive, group);
  return async () => {
    removeListener?.();
    if (subscription.isClosed()) return;
    if (!connection.connected()) return subscription.unsubscribe();
    const drained = subscription.drain();
    // The drain would wait for a broker that is lost now; nothing arrives in that case.
    const offChange = connection.onChange(() => subscription.unsubscribe());
    await drained.finally(offChange);
  };
}

/** Sends a request in a message of its own. */
function requestAlone(
  inbox: ReplyInbox,
  ...[subject, data, { timeoutMs, signal }]: Parameters<BusShape["request"]>
): Promise<BusReply> {
  return new Promise((resolve) => {
    const answered = (found: Uint8Array | undefined): void =>
      resolve(found === undefined ? { _tag: "NoResponders" } : { _tag: "Reply", data: found });
    inbox.send(
      subject,
      data,
      {
        reply: (message) => {
          answered(isNoResponders(message) ? undefined : plain(message.data));
          return true;
        },
        // The listener may have learned meanwhile that this process accepts batches.
        batchedReply: answered,
        lost: (_why, denied) =>
          resolve(
            denied === undefined
              ? { _tag: "TimedOut" }
              : { _tag: "Denied", message: notPermitted(denied) },
          ),
      },
      signal === undefined ? { timeoutMs } : { timeoutMs, signal },
    );
  });
}

export const layer: Layer.Layer<Bus, never, Nats> = Layer.effect(
  Bus,
  Effect.map(Nats, makeNatsBus),
);
