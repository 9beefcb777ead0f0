/**
 * The JetStream API as JSON over `ReplyInbox`: streams, consumers, messages by the leader. The one
 * place where the broker's refusals become errors of ours, by code and never by text.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Msg } from "@nats-io/nats-core";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { isNoResponders, type ReplyInbox } from "./ReplyInbox.ts";
import * as Data from "effect/Data";

/** `err_code`s of the server that this project decides on. */
export const ApiCode = {
  consumerNotFound: 10014,
  streamsMaxReached: 10027,
  noMessageFound: 10037,
  streamNameInUse: 10058,
  streamNotFound: 10059,
  /** A message for a subject that has one, in a stream that takes one. */
  subjectFull: 10077,
  consumerNotUnique: 10100,
  streamMoveInProgress: 10124,
} as const;

/** The broker understood and said no. */
export class ApiRefusal extends Data.TaggedError("ApiRefusal")<{
  readonly code: number;
  readonly message: string;
}> {}

/** A stream's creation in a loaded cluster takes a second or two; everything else milliseconds. */
const API_TIMEOUT_MS = 5_000;
/**
 * Of what only asks, or is asked again by its caller: a server that died with the question says nothing, and this is
 * what everybody waits for then, so no longer than a loaded broker needs.
 */
const RETRIED_TIMEOUT_MS = 2_000;
const isRetried = (subject: string): boolean =>
  /^\$JS\.API\.(?:CONSUMER|DIRECT|STREAM\.MSG\.GET)\./.test(subject);
/** Of a cluster whose leader has died: 4 to 10 s, more when it is loaded. */
const ELECTION_MS_MAX = 20_000;
const AGAIN_MS = 250;
const encoder = new TextEncoder();

/** Asked, and nobody said anything: a leader that died, or a connection that was lost. */
class Silence extends BrokerUnavailable {}

interface Answer {
  readonly error?: {
    readonly code: number;
    readonly err_code?: number;
    readonly description: string;
  };
}

export class JetStreamApi {
  private readonly replies: ReplyInbox;

  constructor(replies: ReplyInbox) {
    this.replies = replies;
  }

  /** `verb` as in `STREAM.INFO.<name>`. Rejects with `ApiRefusal` or `BrokerUnavailable`. */
  async call<A>(verb: string, body?: object): Promise<A> {
    const data = body === undefined ? new Uint8Array(0) : encoder.encode(JSON.stringify(body));
    const message = await this.request(`$JS.API.${verb}`, data);
    const answer = JSON.parse(message.string()) as Answer;
    if (answer.error !== undefined)
      throw new ApiRefusal({
        code: answer.error.err_code ?? answer.error.code,
        message: answer.error.description,
      });
    return answer as A;
  }

  /**
   * As `call`, of `STREAM.INFO`, which only the stream's leader answers: asked again for as long as an election takes. For
   * what a process has to know before it starts; it would end, and be started again in vain.
   */
  async streamInfo<A>(stream: string): Promise<A> {
    const untilMs = performance.now() + ELECTION_MS_MAX;
    for (;;) {
      try {
        return await this.call<A>(`STREAM.INFO.${stream}`);
      } catch (error) {
        if (!(error instanceof Silence) || performance.now() >= untilMs) throw error;
        await delay(AGAIN_MS);
      }
    }
  }

  /** One request, one answer, whatever it is made of. Rejects with `BrokerUnavailable`. */
  request(subject: string, data: Uint8Array): Promise<Msg> {
    return new Promise((resolve, reject) => {
      this.replies.send(
        subject,
        data,
        {
          reply: (message) => {
            if (isNoResponders(message))
              reject(new BrokerUnavailable({ message: `nothing serves ${subject} now` }));
            else resolve(message);
            return true;
          },
          lost: (why) => reject(new Silence({ message: `no answer to ${subject} (${why})` })),
        },
        { timeoutMs: isRetried(subject) ? RETRIED_TIMEOUT_MS : API_TIMEOUT_MS },
      );
    });
  }
}

/** Any error of the adapters as the port's: refusals that nobody decided on are "retry later". */
export const unavailable = (error: unknown): BrokerUnavailable =>
  error instanceof BrokerUnavailable
    ? error
    : new BrokerUnavailable({ message: error instanceof Error ? error.message : String(error) });
