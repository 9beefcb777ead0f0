/**
 * Runs the mail process in a scope: it listens for SMTP until the scope closes. `agents mail`,
 * `agents dev` and tests use it with different layers. It runs the module's `email`, never an
 * agent, and knows agents only by name.
 */
import * as Effect from "effect/Effect";
import { Log } from "../../core/telemetry/Log.ts";
import { MailServer, type MailAnswer } from "../../core/mail/MailServer.ts";
import { MailTransport } from "../../core/mail/MailTransport.ts";
import { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import { Time } from "../../core/time/Time.ts";
import { MAIL_BOUNDS_DEFAULT, type MailBounds, type MailModule } from "./MailServices.ts";
import { PeerRates } from "./PeerRates.ts";
import { ACCEPTED, LATER, takeMessage, UNKNOWN_RECIPIENT } from "./takeMessage.ts";

interface RunMailOptions {
  readonly hostname: string;
  /** 0: a free port is chosen. */
  readonly port: number;
  readonly bounds?: Partial<MailBounds>;
  readonly module: () => MailModule;
}

const TOO_MANY: MailAnswer = {
  _tag: "Later",
  code: "4.7.0",
  message: "Too many messages from your address this minute",
};

export const runMail = (options: RunMailOptions) =>
  Effect.gen(function* () {
    const { module, hostname, port } = options;
    const time = yield* Time;
    const log = yield* Log;
    const transport = yield* MailTransport;
    const server = yield* MailServer;
    const { messagesPerPeerPerMinute, handlerTimeoutMs, ...bounds } = {
      ...MAIL_BOUNDS_DEFAULT,
      ...options.bounds,
    };
    const rates = new PeerRates(time, messagesPerPeerPerMinute);
    // Released after the server, which receives no message then.
    const unfinished = yield* Effect.acquireRelease(
      Effect.sync(() => new UnfinishedWork(time, log)),
      (work) => (work.size === 0 ? Effect.void : Effect.promise(() => work.settle())),
    );
    const services = { module, transport, unfinished, time, log };
    return yield* server.listen(
      { ...bounds, hostname, port },
      {
        peer: (peer) => (rates.take(peer) ? ACCEPTED : TOO_MANY),
        recipient: (address) => (module().mayKnow(address) ? ACCEPTED : UNKNOWN_RECIPIENT),
        message: (message) =>
          new Promise((answer) => {
            const late = new AbortController();
            const cancel = time.after(handlerTimeoutMs, () => {
              late.abort();
              log.error("the module's email took too long", {
                from: message.from,
                to: message.to.join(", "),
                ms: handlerTimeoutMs,
              });
              answer(LATER);
            });
            void takeMessage(services, message, late.signal).then((taken) => {
              cancel();
              answer(taken);
            });
          }),
      },
    );
  });
