/**
 * Subscribes a gateway to messages of hosts, on subjects that carry its own id. One that can't be read, or says what no host
 * of ours would (another release's, or nobody's), is dropped with a line in the log: whatever it does to its handler, it
 * must not end the process and every socket with it.
 */
import type { BusMessage } from "../../core/bus/Bus.ts";
import type { GatewayServices } from "./GatewayServices.ts";

/** Listens until the returned function is called. */
export const listen = (
  { bus, log }: Pick<GatewayServices, "bus" | "log">,
  subject: string,
  handler: (message: BusMessage) => void,
): (() => void) =>
  bus.subscribe(
    subject,
    (message) => {
      try {
        handler(message);
      } catch (error) {
        log.warn("a message could not be read", {
          subject,
          error: error instanceof Error ? error.message : String(error),
        });
      }
    },
    { alone: true },
  );
