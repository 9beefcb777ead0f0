/**
 * Makes the client's writes to the broker cheaper.
 *
 * 1. Everything that one pass of the event loop sends is one write. The client writes at the end of
 *    a microtask. Under load that is a system call every few messages here and a read for each
 *    there, together a fifth of a webhook's cost. `setImmediate` runs right after the arrived data
 *    is handled, so a single message is not delayed.
 * 2. The first line of a message comes from Node's buffer pool. The client encodes it with
 *    `TextEncoder`, which allocates memory for each line: this takes five times as long and adds
 *    work for the garbage collector.
 *
 * Both replace internals of the client, which has no option for them. package.json therefore pins
 * the exact version of `@nats-io/nats-core` (`test/nats/natsCoreVersion.test.ts`). A client
 * with different internals is left unchanged: it is slower and still correct.
 */
import type { NatsConnection as Client } from "@nats-io/nats-core";

/** More is written at once, so that the receiver can begin. The client's own limit is the same. */
const GATHER_BYTES_MAX = 32 * 1024;

interface Protocol {
  flushPending: () => void;
  sendCommand: (command: string | Uint8Array, ...payloads: Uint8Array[]) => void;
  readonly outbound: { readonly size: () => number };
}

/** Lets others publish right before each gathered write. */
export interface Writes {
  /** Calls `f` before each gathered write, whose writes are in it. The result requests a write. */
  readonly before: (f: () => void) => () => void;
}

/** Changes the client. Undefined for one with different internals, which stays unchanged. */
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
        // Also after an error; otherwise nothing would be written any more.
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

/** `Writes` of a client without gathered writes: `f` runs after each pass that asks for a write. */
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
