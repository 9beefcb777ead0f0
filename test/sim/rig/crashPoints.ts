/**
 * The places where a process of a simulation can be made to die, by name: each lies at a port,
 * between what the host has decided and what the broker knows. The product has no code for them.
 *
 * `:before`: the request never reaches the broker. `:after`: it is carried out, but the process
 * never gets the answer.
 */
export const CRASH_POINTS = [
  /** An event of turns: not sent; stored and not known. */
  "commit:before-append",
  "commit:after-append",
  /** The event that a new owner begins with. */
  "claim:before-append",
  "claim:after-append",
  /** The event that ends an agent's life. */
  "destroy:before-append",
  "destroy:after-append",
  /** The answer to a webhook, on its way to the gateway. */
  "answer:before",
  "answer:after",
  "ack:before",
  "ack:after",
  "nak:before",
  "nak:after",
  /** A frame for a socket. */
  "frame:before",
  "frame:after",
  "reply:before",
  "reply:after",
  "snapshot:before",
  /** The snapshot is stored and the journal not trimmed, the cache not written. */
  "snapshot:between",
  /** The local cache of an agent that leaves memory. */
  "cache:before",
  "cache:after",
  "arm:before",
  "arm:after",
  "disarm:before",
  "disarm:after",
  /** The trigger of a queue item, which is stored before the event that holds the item. */
  "trigger:before",
  "trigger:after",
  /** A dead letter, which is stored before the event that says so. */
  "deadLetter:before",
  "deadLetter:after",
  /** An outgoing webhook: not sent; sent and its answer not heard. */
  "send:before",
  "send:after",
  /** Each object of the archive. */
  "archive:before",
  "archive:after",
  /** The base of a journal that is trimmed: each of its copies. */
  "base:before",
  "base:after",
  /** The events that it covers. */
  "trim:before",
  "trim:after",
  "rebuild:before",
  "rebuild:after",
  "lease:before-claim",
  "lease:after-claim",
  "lease:before-renew",
  "lease:after-renew",
  "lease:before-release",
  "lease:after-release",
  "consume:before",
  "consume:after",
] as const;

export type CrashPoint = (typeof CRASH_POINTS)[number];
