/**
 * Mail of a simulation: the real mail process beside each gateway, on a listener in memory; people
 * who write to ledgers, and the relay that has what ledgers answer. A relay on the way repeats a
 * message whose 250 it did not hear.
 */
import { createHash } from "node:crypto";
import { Context, Effect } from "effect";
import { Log, type LogShape } from "../../core/telemetry/Log.ts";
import { mayKnow, emailRoute, resolverOf } from "../../core/mail/EmailRoute.ts";
import { EmailBinding } from "../../core/mail/EmailBinding.ts";
import { makeMailDrop } from "../../core/mail/mailDrop.ts";
import {
  MailServer,
  type IncomingMessage,
  type MailAnswer,
  type MailHandlers,
} from "../../core/mail/MailServer.ts";
import {
  MailTransport,
  NO_MAIL_TRANSPORT,
  type MailTransportShape,
} from "../../core/mail/MailTransport.ts";
import type { InboxShape } from "../../core/inbox/Inbox.ts";
import { Time } from "../../core/time/Time.ts";
import { decodeEnvelope, encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { runMail } from "../../services/mail/runMail.ts";
import { bindEnv } from "../../services/module/bindEnv.ts";
import type { Installation } from "./Installation.ts";
import { patch } from "./rig/patch.ts";
import { Random } from "./rig/Random.ts";
import { never, type SimProcess } from "./rig/SimProcess.ts";

const DOMAIN = "sim.example";
const LATER: MailAnswer = { _tag: "Later", code: "4.4.1", message: "nobody is there" };

export type TakeMail = (message: IncomingMessage) => Promise<MailAnswer>;

/** The mail process of a machine. It never answers when its process dies first. */
export function openMail(
  { broker, weather }: Installation,
  process: SimProcess,
  parts: { readonly inbox: InboxShape; readonly log: LogShape },
): TakeMail {
  const { time } = process;
  const inbox = weather.bug?.mergesMail === true ? merging(parts.inbox) : parts.inbox;
  const mail = {
    drop: makeMailDrop({ inbox, time }),
    binding: new EmailBinding(NO_MAIL_TRANSPORT, time),
  };
  const env = bindEnv({}, ["Ledger"], () => never() as never, mail);
  const entries = [emailRoute(`ledger+*@${DOMAIN}`, { agent: "Ledger" })];
  const module = {
    env,
    resolver: resolverOf(entries),
    mayKnow: (recipient: string) => mayKnow(entries, recipient),
  };
  let handlers!: MailHandlers;
  const server = {
    listen: (_options: unknown, given: MailHandlers) =>
      Effect.sync(() => {
        handlers = given;
        return { port: 0 };
      }),
  };
  const context = Context.make(MailServer, server).pipe(
    Context.add(MailTransport, NO_MAIL_TRANSPORT),
    Context.add(Time, time),
    Context.add(Log, parts.log),
  );
  const run = runMail({ hostname: broker.subjects.namespace, port: 0, module: () => module });
  Effect.runSync(Effect.scoped(run).pipe(Effect.provide(context)));
  return async (message) => {
    if (!process.alive) return never();
    const peer = handlers.peer(message.peer);
    if (peer._tag !== "Accepted") return peer;
    const known = message.to.map(handlers.recipient).find(({ _tag }) => _tag !== "Accepted");
    const answer = known ?? (await handlers.message(message));
    return process.alive ? answer : never();
  };
}

/** A planted bug: the Message-ID alone tells messages apart. */
const merging = (inbox: InboxShape): InboxShape => ({
  ...inbox,
  publish: (id, data, options) => {
    const { head, body } = decodeEnvelope(data);
    const key = `mail:${head.headers?.["message-id"]}`;
    return inbox.publish(id, encodeEnvelope({ ...head, key }, body), options);
  },
});

/** The relay of a host: takes what comes, or says that it is away. */
export const simRelay = (
  { weather, observed, time }: Installation,
  process: SimProcess,
): MailTransportShape => ({
  configured: true,
  send: ({ id, parts }) => {
    if (process.point("send:before")) return never();
    observed.mailsOut.push({ id, text: parts[0]?.content ?? "", atMs: time.nowMs() });
    weather.trace.add(`${process.name} mails ${id}`);
    if (process.point("send:after")) return never();
    const result =
      weather.fateOfRequest() === "well"
        ? ({ _tag: "Sent", refused: [], deferred: [] } as const)
        : ({ _tag: "Failed", message: "the relay is away" } as const);
    return process.hear(Promise.resolve(result));
  },
});

/** What a mail asks a ledger to do, in its body. */
export interface MailOrder {
  readonly id: string;
  readonly do: "mark" | "reply" | "send" | "flaky" | "reject";
  readonly fails: number;
}

const OPS: Readonly<Record<MailOrder["do"], number>> = {
  mark: 3, reply: 4, send: 2, flaky: 2, reject: 1,
}; // prettier-ignore
/** The share of runs, and of the steps of one that has any. */
const RUNS_WITH_MAIL = 0.25;
const MAILS = 0.1;
/** The shares of mails that are sent again, and that have an earlier one's Message-ID. */
const REPEATED = 0.25;
const SAME_ID = 0.2;
const ATTEMPTS_MAX = 6;
const RETRY_MS = 400;
/** Some cut the connection before the answer. */
const PATIENCE_MS = 3_000;

export class Correspondents {
  private readonly installation: Installation;
  private readonly ledgers: ReadonlyArray<string>;
  private readonly random: Random;
  private readonly rate: number;
  private last = { messageId: "<m0@people.example>", agent: "a" };
  private count = 0;

  constructor(installation: Installation, ledgers: ReadonlyArray<string>) {
    this.installation = installation;
    this.ledgers = ledgers;
    this.random = new Random(installation.seed, "correspondents");
    this.rate = this.random.chance(RUNS_WITH_MAIL) ? MAILS : 0;
  }

  /** What people write in one step. */
  act(): void {
    const { random } = this;
    if (!random.chance(this.rate)) return;
    const id = `m${++this.count}`;
    if (!random.chance(SAME_ID))
      this.last = { messageId: `<${id}@people.example>`, agent: random.pick(this.ledgers) };
    const order: MailOrder = { id, do: random.weighted(OPS), fails: random.int(0, 3) };
    const { agent, messageId } = this.last;
    this.installation.observed.mailsIn.set(id, { agent, answers: [] });
    const send = (): void => void this.send(agent, messageId, order);
    send();
    if (random.chance(REPEATED)) this.installation.time.after(random.pick([0, 50, 2_000]), send);
  }

  private async send(agent: string, messageId: string, order: MailOrder): Promise<void> {
    const { time, weather, observed } = this.installation;
    const { answers } = observed.mailsIn.get(order.id)!;
    for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
      const answer = await this.hand({
        from: "ann@people.example",
        to: [`ledger+${agent}@${DOMAIN}`],
        raw: encoder.encode(
          `Received: hop ${attempt}\r\nMessage-ID: ${messageId}\r\nSubject: ${order.do}\r\n\r\n${JSON.stringify(order)}`,
        ),
        peer: "192.0.2.2",
      });
      answers.push(answer._tag);
      weather.trace.add(`people hear ${answer._tag} of ${order.id} ${order.do}`);
      if (answer._tag === "Accepted") return weather.bit("mail accepted");
      await new Promise<void>((resolve) => void time.after(RETRY_MS, resolve));
    }
  }

  private hand(message: IncomingMessage): Promise<MailAnswer> {
    const { gatewaysAlive, time } = this.installation;
    if (gatewaysAlive.length === 0) return Promise.resolve(LATER);
    const { mail } = this.random.pick(gatewaysAlive);
    return new Promise((resolve) => {
      const cancel = time.after(PATIENCE_MS, () => resolve(LATER));
      void mail(message).then((answer) => {
        cancel();
        resolve(answer);
      });
    });
  }
}

const encoder = new TextEncoder();

/** The order in a mail, where the journal has the whole message. */
export function mailOrderOf(raw: string | undefined): MailOrder | undefined {
  const at = raw?.indexOf("\r\n\r\n{") ?? -1;
  return at < 0 ? undefined : (JSON.parse(raw!.slice(at)) as MailOrder);
}

/** Keys of mails are hashed at once, not off the main thread. Returns what undoes that. */
export const hashAtOnce = (): (() => void) =>
  patch(crypto.subtle, "digest", () => async (_algorithm, data) => {
    const hash = createHash("sha256")
      .update(data as Uint8Array)
      .digest();
    return hash.buffer.slice(hash.byteOffset, hash.byteOffset + hash.length);
  });
