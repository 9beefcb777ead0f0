/**
 * A client of the JetStream API: JSON over `ReplyInbox`, for streams, consumers, and messages from
 * a stream's leader. All refusals of the broker become errors of this project here, by code and
 * never by text.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Msg } from "@nats-io/nats-core";
import { BrokerUnavailable, NotPermitted } from "../../../core/bus/Bus.ts";
import { isNoResponders, notPermitted, type ReplyInbox } from "./ReplyInbox.ts";
import * as Data from "effect/Data";
import { messageOf } from "../../../core/errors/thrown.ts";

/** The server's `err_code`s that this project handles. */
export const ApiCode = {
  consumerNotFound: 10014,
  streamsMaxReached: 10027,
  noMessageFound: 10037,
  /** The server, or the account, has no room for what the stream reserves. */
  storageExceeded: 10047,
  streamNameInUse: 10058,
  streamNotFound: 10059,
  replicasNeedCluster: 10074,
  /** The stream accepts one message per subject, and the subject has one. */
  subjectFull: 10077,
  consumerNotUnique: 10100,
  streamMoveInProgress: 10124,
} as const;

/** The broker refused a request. `code`: its `err_code`. */
export class ApiRefusal extends Data.TaggedError("ApiRefusal")<{
  readonly code: number;
  readonly message: string;
}> {}

/** Requests of a loaded cluster have taken a second or two. */
const API_TIMEOUT_MS = 5_000;
/** A change of a stream waits for its replicas to agree, and for an election in between. */
const CHANGE_TIMEOUT_MS = 20_000;
const isChange = (subject: string): boolean =>
  /^\$JS\.API\.STREAM\.(?:CREATE|UPDATE)\./.test(subject);
/**
 * For requests that only read, or that the caller retries. After the death of a server its clients
 * wait this long for an answer, so it is no longer than a loaded broker needs.
 */
const RETRIED_TIMEOUT_MS = 2_000;
const isRetried = (subject: string): boolean =>
  /^\$JS\.API\.(?:CONSUMER|DIRECT|STREAM\.MSG\.GET)\./.test(subject);
/** An election after a leader's death takes 4 to 10 s, longer in a loaded cluster. */
const ELECTION_MS_MAX = 20_000;
/** Short compared with an election. */
const RETRY_MS = 250;
const encoder = new TextEncoder();

function timeoutOf(subject: string): number {
  if (isChange(subject)) return CHANGE_TIMEOUT_MS;
  return isRetried(subject) ? RETRIED_TIMEOUT_MS : API_TIMEOUT_MS;
}

/** A request without an answer: the leader died, or the connection was lost. */
class NoAnswer extends BrokerUnavailable {}

interface Answer {
  readonly error?: {
    readonly code: number;
    readonly err_code?: number;
    readonly description: string;
  };
}

export class JetStreamApi {
  constructor(private readonly replies: ReplyInbox) {}

  /** `verb` as in `STREAM.INFO.<name>`. Rejects with `ApiRefusal` or `BrokerUnavailable`. */
  async call<A>(verb: string, body?: object): Promise<A> {
    const data = body === undefined ? new Uint8Array(0) : encoder.encode(JSON.stringify(body));
    const reply = await this.request(`$JS.API.${verb}`, data);
    const answer = JSON.parse(reply.string()) as Answer;
    if (answer.error === undefined) return answer as A;
    const code = answer.error.err_code ?? answer.error.code;
    const message = code === ApiCode.streamNotFound ? missing(verb) : answer.error.description;
    throw new ApiRefusal({ code, message });
  }

  /**
   * Calls `STREAM.INFO`, which only the stream's leader answers, and retries for as long as an
   * election takes. For facts that a process needs before it starts: without the retries it would
   * end and be restarted in vain. Rejects as `call` does.
   */
  async streamInfo<A>(stream: string): Promise<A> {
    const untilMs = performance.now() + ELECTION_MS_MAX;
    for (;;) {
      try {
        return await this.call<A>(`STREAM.INFO.${stream}`);
      } catch (error) {
        if (!(error instanceof NoAnswer) || performance.now() >= untilMs) throw error;
        await delay(RETRY_MS);
      }
    }
  }

  /** Sends one request and returns its only answer, undecoded. Rejects with `BrokerUnavailable`. */
  request(subject: string, data: Uint8Array): Promise<Msg> {
    return new Promise((resolve, reject) => {
      this.replies.send(
        subject,
        data,
        {
          reply: (message) => {
            if (isNoResponders(message))
              reject(new BrokerUnavailable({ message: unserved(subject) }));
            else resolve(message);
            return true;
          },
          lost: (why, denied = subject) =>
            reject(
              why === "denied"
                ? new NotPermitted({ message: notPermitted(denied) })
                : new NoAnswer({ message: `no answer to ${subject} (${why})` }),
            ),
        },
        { timeoutMs: timeoutOf(subject) },
      );
    });
  }
}

/** `verb` as in `JetStreamApi.call`. */
const missing = (verb: string): string =>
  `the stream ${/^[A-Z]+\.(?:MSG\.)?[A-Z]+\.([^.]+)/.exec(verb)?.[1]} is missing: "agents provision" creates it again`;

/** Every server with JetStream serves the requests about streams, once it has started. */
const unserved = (subject: string): string =>
  `nothing serves ${subject} now` +
  (subject.startsWith("$JS.API.STREAM.")
    ? ": is JetStream enabled there? (nats-server -js, or jetstream {} in its configuration)"
    : "");

/** A stream of the installation does not exist. */
class StreamMissing extends BrokerUnavailable {
  /** For what knows errors by their fields alone: the broker was reached. */
  readonly isMissing = true;
}

/** Converts an adapter's error to the port's. Unhandled refusals mean "retry later". */
export function unavailable(error: unknown): BrokerUnavailable {
  if (error instanceof BrokerUnavailable) return error;
  const message = messageOf(error);
  return error instanceof ApiRefusal && error.code === ApiCode.streamNotFound
    ? new StreamMissing({ message })
    : new BrokerUnavailable({ message });
}

/** Resolves as `ask` does. Rejects with `BrokerUnavailable` where it rejects with anything. */
export async function orUnavailable<A>(ask: () => Promise<A>): Promise<A> {
  try {
    return await ask();
  } catch (error) {
    throw unavailable(error);
  }
}
