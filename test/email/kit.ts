/** What mail tests share: an installation's processes, a real SMTP client, and a relay. */
import { createTransport, type SendMailOptions } from "nodemailer";
import { SMTPServer } from "smtp-server";
import { noMetrics } from "../../core/telemetry/Metrics.ts";
import type { MailSettings, ProcessSettings } from "../../services/wiring/ProcessSettings.ts";
import { startProcess } from "../../services/wiring/joinProcess.ts";
import { readModule } from "../../services/module/readModule.ts";
import { collectingLog } from "../kit/system.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";

export interface StartOptions {
  readonly role: ProcessSettings["role"];
  readonly nats: string;
  readonly namespace: string;
  /** What the module exports. */
  readonly module: object;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly mail?: Partial<MailSettings>;
}

export async function start(options: StartOptions) {
  const log = collectingLog();
  const folder = tempFolder("mail");
  const running = await startProcess({
    role: options.role,
    module: readModule(options.module as Readonly<Record<string, unknown>>, "the test's module"),
    env: options.env ?? {},
    natsUrl: options.nats,
    natsLogin: undefined,
    namespace: options.namespace,
    dataFolder: folder.path,
    hostname: "127.0.0.1",
    port: 0,
    publicUrl: undefined,
    mail: {
      port: 0,
      relayUrl: undefined,
      tls: undefined,
      auth: undefined,
      messageBytesMax: undefined,
      messagesPerPeerPerMinute: undefined,
      ...options.mail,
    },
    requireDurable: false,
    groupCommit: "auto",
    provision: { shards: 2, replicas: undefined, leaseTtlMs: undefined } as never,
    log,
    metrics: noMetrics,
    progress: () => undefined,
  });
  const stop = async () => {
    await running.stop();
    folder.remove();
  };
  return { ...running, log, stop, smtpPort: running.smtpPort ?? 0 };
}

export interface Delivered {
  /** 250, or what refused it. */
  readonly code: number;
  readonly response: string;
}

/** Sends one message by SMTP as any program does; never rejects because of the server's answer. */
export async function deliver(port: number, mail: SendMailOptions): Promise<Delivered> {
  const client = createTransport({ host: "127.0.0.1", port, ignoreTLS: true });
  try {
    const sent = await client.sendMail(mail);
    return { code: Number(sent.response.slice(0, 3)), response: sent.response };
  } catch (error) {
    const { responseCode, response, message } = error as Error & {
      readonly responseCode?: number;
      readonly response?: string;
    };
    return { code: responseCode ?? 0, response: response ?? message };
  } finally {
    client.close();
  }
}

export interface SunkMail {
  readonly from: string;
  readonly to: ReadonlyArray<string>;
  readonly raw: Buffer;
}

const errorOf = (responseCode: number | undefined): Error | null =>
  responseCode === undefined ? null : Object.assign(new Error("no"), { responseCode });

/** A relay that takes everything, unless `refuse` says otherwise. */
export class Sink {
  readonly mails: SunkMail[] = [];
  /** Asked for each message; a code is the answer in the place of 250. */
  refuse: ((mail: SunkMail) => number | undefined) | undefined;
  attempts = 0;
  /** Asked for each recipient, as `refuse`. */
  refuseRecipient: ((to: string) => number | undefined) | undefined;
  private readonly server: SMTPServer;

  private constructor() {
    this.server = new SMTPServer({
      authOptional: true,
      disabledCommands: ["STARTTLS"],
      disableReverseLookup: true,
      onRcptTo: ({ address }, _session, reply) => reply(errorOf(this.refuseRecipient?.(address))),
      onData: (stream, session, reply) => {
        const parts: Buffer[] = [];
        stream.on("data", (part: Buffer) => parts.push(part));
        stream.once("end", () => {
          const { mailFrom, rcptTo } = session.envelope;
          const mail = {
            from: mailFrom === false ? "" : mailFrom.address,
            to: rcptTo.map(({ address }) => address),
            raw: Buffer.concat(parts),
          };
          this.attempts++;
          const code = this.refuse?.(mail);
          if (code === undefined) this.mails.push(mail);
          reply(errorOf(code));
        });
      },
    });
    this.server.on("error", () => undefined);
  }

  static async open(): Promise<Sink> {
    const sink = new Sink();
    await new Promise<void>((done) => sink.server.listen(0, "127.0.0.1", done));
    return sink;
  }

  get url(): string {
    const { port } = this.server.server.address() as { readonly port: number };
    return `smtp://127.0.0.1:${port}`;
  }

  /** The mails, once there are so many. */
  async got(count: number): Promise<ReadonlyArray<SunkMail>> {
    await pollUntil(`${count} mails at the relay`, () => {
      const done = this.mails.length >= count;
      return done ? { done, value: true } : { done, saw: this.mails.map(String) };
    });
    return this.mails;
  }

  close(): Promise<void> {
    return new Promise((closed) => this.server.close(() => closed()));
  }
}
