/**
 * Subscribes a gateway to messages of hosts, on subjects that contain the gateway's id. A message
 * that cannot be read, or that no host of this release sends, is dropped and logged. A handler that
 * throws must not end the process and all of its sockets.
 */
import type { BusMessage, BusShape } from "../../core/bus/Bus.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { messageOf } from "../../core/errors/thrown.ts";

/** Subscribes until the returned function is called. */
export const listen = (
  { bus, log }: { readonly bus: BusShape; readonly log: LogShape },
  subject: string,
  handler: (message: BusMessage) => void,
): (() => void) =>
  bus.subscribe(
    subject,
    (message) => {
      try {
        handler(message);
      } catch (error) {
        log.warn("a message could not be read", { subject, error: messageOf(error) });
      }
    },
    { alone: true },
  );
