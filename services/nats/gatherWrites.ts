/**
 * What the client sends, sent for less.
 *
 * 1. One write to the broker for everything that one pass of the event loop wants to send. The client
 *    writes at the end of a microtask: under load that is a system call every few messages here and one
 *    read each there, together a fifth of a webhook's cost. `setImmediate` runs right after what has
 *    arrived is handled, so a lone message waits for nothing.
 * 2. Where several messages come together in one pass, the process is busy, and they wait for one pass more: nats-server
 *    took a quarter less for a webhook between two processes.
 * 3. A message's first line comes from Node's pool of buffers. The client encodes it by `TextEncoder`, which makes
 *    memory of its own for each: five times as long, and the collector's to take away.
 *
 * Reaches into the client (`@nats-io/nats-core` 3.4), which has no option for it. A client that looks
 * different inside is left as it is: slower, and right.
 */
import type { NatsConnection as Client } from "@nats-io/nats-core";

/** What is gathered beyond this is written at once: it fills packets by itself, and memory otherwise. */
const GATHER_BYTES_MAX = 64 * 1024;

/** Messages of one pass that tell of a busy process (rule 2); a caller alone has two at most, an event and its state. */
const BUSY_MESSAGES = 3;

interface Protocol {
  flushPending: () => void;
  sendCommand: (command: string | Uint8Array, ...payloads: Uint8Array[]) => void;
  readonly outbound: { readonly size: () => number };
}

/** Says whether it could. */
export function gatherWrites(client: Client): boolean {
  const { protocol } = client as unknown as { readonly protocol?: Partial<Protocol> };
  if (protocol === undefined || !isProtocol(protocol)) return false;
  const send = protocol.sendCommand.bind(protocol);
  let gathered = 0;
  protocol.sendCommand = (command, ...payloads) => {
    gathered++;
    send(typeof command === "string" ? Buffer.from(command) : command, ...payloads);
  };
  const flush = protocol.flushPending.bind(protocol);
  let waiting = false;
  const write = (): void => {
    waiting = false;
    gathered = 0;
    flush();
  };
  protocol.flushPending = () => {
    if (protocol.outbound.size() >= GATHER_BYTES_MAX) return flush();
    if (waiting) return;
    waiting = true;
    setImmediate(() => {
      if (gathered < BUSY_MESSAGES) write();
      else setImmediate(write);
    });
  };
  return true;
}

const isProtocol = (value: Partial<Protocol>): value is Protocol =>
  typeof value.flushPending === "function" &&
  typeof value.sendCommand === "function" &&
  typeof value.outbound?.size === "function";
