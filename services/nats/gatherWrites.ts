/**
 * What the client sends, sent for less.
 *
 * 1. One write to the broker for everything that one pass of the event loop wants to send. The client
 *    writes at the end of a microtask: under load that is a system call every few messages here and one
 *    read each there, together a fifth of a webhook's cost. `setImmediate` runs right after what has
 *    arrived is handled, so a lone message waits for nothing.
 * 2. A message's first line comes from Node's pool of buffers. The client encodes it by `TextEncoder`, which makes
 *    memory of its own for each: five times as long, and the collector's to take away.
 *
 * Reaches into the client (`@nats-io/nats-core` 3.4), which has no option for it. A client that looks
 * different inside is left as it is: slower, and right.
 */
import type { NatsConnection as Client } from "@nats-io/nats-core";

/** What is gathered beyond this is written at once: who is to read it can begin. As the client's own limit. */
const GATHER_BYTES_MAX = 32 * 1024;

interface Protocol {
  flushPending: () => void;
  sendCommand: (command: string | Uint8Array, ...payloads: Uint8Array[]) => void;
  readonly outbound: { readonly size: () => number };
}

/** Who wants to add something to each write. */
export interface Writes {
  /** `f` is called before each gathered write; what it publishes goes along. The function it gives asks for one. */
  readonly before: (f: () => void) => () => void;
}

/** Undefined: it could not. */
export function gatherWrites(client: Client): Writes | undefined {
  const { protocol } = client as unknown as { readonly protocol?: Partial<Protocol> };
  if (protocol === undefined || !isProtocol(protocol)) return undefined;
  const send = protocol.sendCommand.bind(protocol);
  protocol.sendCommand = (command, ...payloads) =>
    send(typeof command === "string" ? Buffer.from(command) : command, ...payloads);
  const flush = protocol.flushPending.bind(protocol);
  let waiting = false;
  const fillers: Array<() => void> = [];
  protocol.flushPending = () => {
    if (protocol.outbound.size() >= GATHER_BYTES_MAX) return flush();
    if (waiting) return;
    waiting = true;
    setImmediate(() => {
      try {
        for (const fill of fillers) fill();
      } finally {
        // Whatever happened: else nothing was written any more.
        waiting = false;
        flush();
      }
    });
  };
  return {
    before: (f) => {
      fillers.push(f);
      return protocol.flushPending;
    },
  };
}

/** The same of a client whose writes are not gathered: after each pass of the event loop that asks for it. */
export const eachPass: Writes = {
  before: (f) => {
    let waiting = false;
    return () => {
      if (waiting) return;
      waiting = true;
      setImmediate(() => {
        waiting = false;
        f();
      });
    };
  },
};

const isProtocol = (value: Partial<Protocol>): value is Protocol =>
  typeof value.flushPending === "function" &&
  typeof value.sendCommand === "function" &&
  typeof value.outbound?.size === "function";
