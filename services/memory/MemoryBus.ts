/**
 * The bus in memory: `BusStore` as one connection uses it. Messages arrive in a later microtask, in
 * order. Many requests may share one abort signal, as those of `CallClient` do.
 */
import { AsyncResource } from "node:async_hooks";
import { setMaxListeners } from "node:events";
import * as Layer from "effect/Layer";
import { Bus, type BusReply, type BusShape } from "../../core/bus/Bus.ts";
import type { MemoryConnection } from "./MemoryConnection.ts";

export function makeMemoryBus(connection: MemoryConnection): BusShape {
  const { bus, payloadBytesMax, time } = connection.broker;
  const checkSize = (subject: string, data: Uint8Array): void => {
    if (data.length > payloadBytesMax)
      throw new RangeError(
        `${data.length} bytes to ${subject}: the broker's limit is ${payloadBytesMax} bytes a message`,
      );
  };
  const subscribe: BusShape["subscribe"] = (subject, handler, options) => {
    // As with a real broker, the listener does not inherit the publisher's ambient context.
    const outside = new AsyncResource("MemoryBus");
    const remove = bus.add({
      subject,
      queue: options?.queue,
      owner: connection,
      alone: options?.alone === true,
      reachable: () => connection.connected,
      deliver: (message) =>
        queueMicrotask(() => {
          if (connection.connected) outside.runInAsyncScope(handler, undefined, message);
        }),
    });
    return async () => {
      remove();
      // The microtasks of deliveries in flight were queued before this one.
      await Promise.resolve();
    };
  };
  const publish: BusShape["publish"] = (subject, data, reply) => {
    checkSize(subject, data);
    if (connection.connected) bus.publish({ subject, data: data.slice(), reply }, connection);
  };
  return {
    payloadBytesMax,
    connected: () => connection.connected,
    onReconnected: (f) => connection.onChange((up) => up && f()),
    subscribe,
    publish,
    answer: publish,
    request: (subject, data, { timeoutMs, signal }) => {
      checkSize(subject, data);
      return new Promise<BusReply>((resolve) => {
        const reply = `_INBOX.${time.id()}`;
        const finish = (answer: BusReply): void => {
          cancel();
          close();
          offChange();
          signal?.removeEventListener("abort", onAbort);
          resolve(answer);
        };
        const onAbort = (): void => finish({ _tag: "TimedOut" });
        const cancel = time.after(timeoutMs, onAbort);
        const close = subscribe(reply, (message) => finish({ _tag: "Reply", data: message.data }), {
          alone: true,
        });
        const offChange = connection.onChange((up) => {
          if (!up) onAbort();
        });
        if (signal !== undefined) setMaxListeners(0, signal);
        signal?.addEventListener("abort", onAbort);
        if (!connection.connected || signal?.aborted === true) return onAbort();
        if (bus.publish({ subject, data: data.slice(), reply }, connection) === 0)
          queueMicrotask(() => finish({ _tag: "NoResponders" }));
      });
    },
  };
}

export const layer = (connection: MemoryConnection): Layer.Layer<Bus> =>
  Layer.succeed(Bus, makeMemoryBus(connection));
