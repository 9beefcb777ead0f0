/**
 * The bus over core NATS. Requests go through `ReplyInbox`: one subscription for all answers, and a
 * broken connection ends them at once. While the broker is away, what is published is dropped here:
 * the client would keep it without a bound, and send some of it when nobody waits for it any more.
 * What this process publishes or asks where it alone listens stays in it (`OwnListeners`); what it asks where another does,
 * and answers it, goes with others of the same pass of the event loop (`RequestBatcher`).
 *
 * A process has two addresses for what others send it, each with its own batcher, because whoever
 * is asked learns the address of the asker and may publish there. Calls, which only hosts receive,
 * use `answers`. Everything else uses `callers`: requests to gateways, and the batches of those who
 * call this process. A gateway that batches its calls to a host, or answers its census, can
 * therefore not forge an answer to that host's own calls.
 */
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { Bus, BrokerUnavailable, type BusReply, type BusShape } from "../../core/bus/Bus.ts";
import { Nats, payloadBytesMax, type NatsShape } from "./Nats.ts";
import { OwnListeners } from "./OwnListeners.ts";
import { RequestBatcher, type AskedBy } from "./RequestBatcher.ts";
import { isNoResponders, plain, type ReplyInbox } from "./ReplyInbox.ts";

/** A healthy broker answers a ping within milliseconds. */
const FLUSH_TIMEOUT_MS = 5_000;

export function makeNatsBus(nats: NatsShape): BusShape {
  const { connection, subjects, answers, callers } = nats;
  const { client } = connection;
  const bytesMax = payloadBytesMax(connection);
  const checkSize = (subject: string, data: Uint8Array): void => {
    if (data.length > bytesMax)
      throw new RangeError(
        `${data.length} bytes to ${subject}: the broker's limit is ${bytesMax} bytes a message`,
      );
  };
  const own = new OwnListeners();
  const batcherOf = (inbox: ReplyInbox): RequestBatcher =>
    new RequestBatcher({ connection, answers: inbox }, (subject) => own.find(subject));
  const calls = { inbox: answers, batcher: batcherOf(answers) };
  const rest = { inbox: callers, batcher: batcherOf(callers) };
  const publish: BusShape["publish"] = (subject, data, reply) => {
    checkSize(subject, data);
    if (own.publish(subject, data, reply)) return;
    if (!connection.connected()) return;
    client.publish(subject, data, reply === undefined ? {} : { reply });
  };
  return {
    payloadBytesMax: bytesMax,
    connected: connection.connected,
    onReconnected: (f) => connection.onChange((up) => up && f()),
    publish,
    answer: (reply, data) => {
      if (!rest.batcher.answer(reply, data)) publish(reply, data);
    },
    moved: (pattern) => {
      calls.batcher.forget(pattern);
      rest.batcher.forget(pattern);
    },
    subscribe: (subject, handler, options) => {
      const alone = options?.alone === true;
      const endOwn = alone ? own.add(subject, handler) : undefined;
      const askedBy: AskedBy = new Map();
      const subscription = client.subscribe(subject, {
        ...(options?.queue === undefined ? {} : { queue: options.queue }),
        callback: (error, message) => {
          if (error !== null) {
            connection.log("error", "a subscription has ended", { subject, error: String(error) });
            return;
          }
          try {
            const reply = message.reply === "" ? undefined : message.reply;
            handler({ subject: message.subject, data: plain(message.data), reply });
            if (alone && reply !== undefined) rest.batcher.asked(subject, reply, askedBy);
          } catch (thrown) {
            // A throw here would end the client's reading loop without a word: make it fatal instead.
            queueMicrotask(() => {
              throw thrown;
            });
          }
        },
      });
      return async () => {
        endOwn?.();
        if (subscription.isClosed()) return;
        if (!connection.connected()) return subscription.unsubscribe();
        const drained = subscription.drain();
        // It would wait for a broker that goes away now; nothing comes from it meanwhile.
        const offChange = connection.onChange(() => subscription.unsubscribe());
        await drained.finally(offChange);
      };
    },
    request: (subject, data, options) => {
      checkSize(subject, data);
      const { timeoutMs, signal } = options;
      const { inbox, batcher } = subjects.isForHosts(subject) ? calls : rest;
      const answer = own.request(subject, data, options) ?? batcher.request(subject, data, options);
      if (answer !== undefined) return answer;
      return new Promise<BusReply>((resolve) => {
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
            // Who answers may know by now that this process takes parcels.
            inParcel: answered,
            lost: () => resolve({ _tag: "TimedOut" }),
          },
          signal === undefined ? { timeoutMs } : { timeoutMs, signal },
        );
      });
    },
    flush: async () => {
      calls.batcher.flush();
      rest.batcher.flush();
      if (!connection.connected())
        throw new BrokerUnavailable({ message: "the connection to the broker is down" });
      let timer: NodeJS.Timeout | undefined;
      const timeout = new Promise<never>((_, reject) => {
        timer = setTimeout(
          () => reject(new BrokerUnavailable({ message: "the broker does not answer" })),
          FLUSH_TIMEOUT_MS,
        );
      });
      try {
        await Promise.race([client.flush(), timeout]);
      } catch (error) {
        throw error instanceof BrokerUnavailable
          ? error
          : new BrokerUnavailable({ message: String(error) });
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

export const layer: Layer.Layer<Bus, never, Nats> = Layer.effect(
  Bus,
  Effect.map(Nats, makeNatsBus),
);
