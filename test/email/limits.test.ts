/** The limits of the SMTP listener, tested with raw lines that no proper client would send. */
import { generateKeyPairSync } from "node:crypto";
import { connect, type Socket } from "node:net";
import { Effect, Exit, Layer, Scope } from "effect";
import { createTransport } from "nodemailer";
import { afterEach, describe, expect, test } from "vitest";
import { Log } from "../../core/telemetry/Log.ts";
import { Time } from "../../core/time/Time.ts";
import { MailTransport, NO_MAIL_TRANSPORT } from "../../core/mail/MailTransport.ts";
import type { AgentEmail } from "../../core/mail/AgentEmail.ts";
import { UnfinishedWork } from "../../core/namespace/UnfinishedWork.ts";
import type { MailBounds } from "../../services/mail/MailServices.ts";
import { runMail } from "../../services/mail/runMail.ts";
import { takeMessage } from "../../services/mail/takeMessage.ts";
import { machineTime } from "../../services/node/MachineTime.ts";
import { layer as listenerLayer } from "../../services/smtp/SmtpListener.ts";
import { collectingLog } from "../kit/system.ts";
import { pollUntil } from "../kit/poll.ts";
import { makeCertificate } from "../webhooks/certificate.ts";
import { deliver } from "./kit.ts";

const open: Array<() => Promise<void>> = [];
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close();
});

/** A mail process whose module takes everything and keeps it. */
async function listen(
  bounds: Partial<MailBounds> = {},
  known = (_to: string) => true,
  handle: (message: AgentEmail) => unknown = () => undefined,
) {
  const mails: AgentEmail[] = [];
  const log = collectingLog();
  const scope = Effect.runSync(Scope.make());
  open.push(() => Effect.runPromise(Scope.close(scope, Exit.void)));
  const layer = Layer.mergeAll(
    listenerLayer,
    Layer.succeed(Time, machineTime),
    Layer.succeed(Log, log),
    Layer.succeed(MailTransport, NO_MAIL_TRANSPORT),
  );
  const module = {
    env: {},
    mayKnow: known,
    email: async (message: unknown) => {
      mails.push(message as AgentEmail);
      await handle(message as AgentEmail);
    },
  };
  const { port } = await Effect.runPromise(
    runMail({ hostname: "127.0.0.1", port: 0, bounds, module: () => module }).pipe(
      Effect.provide(layer),
      Scope.provide(scope),
    ),
  );
  return { port, mails, log };
}

/** A client that sends any given line, whatever the server answers. */
class RawClient {
  private text = "";
  private ended = false;
  private readonly socket: Socket;
  constructor(port: number, localAddress = "127.0.0.1") {
    this.socket = connect({ port, host: "127.0.0.1", localAddress });
    this.socket.on("data", (data) => (this.text += data.toString()));
    this.socket.on("close", () => (this.ended = true));
    this.socket.on("error", () => undefined);
    open.push(async () => void this.socket.destroy());
  }
  /** Sends a line, and returns the last line of the answer. */
  async say(line: string): Promise<string> {
    this.text = "";
    this.socket.write(`${line}\r\n`);
    return this.hear();
  }
  hear(): Promise<string> {
    return pollUntil("the server answers", () => {
      const last = this.text.trimEnd().split("\r\n").at(-1) ?? "";
      if (this.ended && last === "") return { done: true, value: "closed" };
      return /^\d{3} /.test(last) ? { done: true, value: last } : { done: false, saw: this.text };
    });
  }
  /** The next lines are a message. */
  async beginMail(): Promise<void> {
    await this.say("MAIL FROM:<a@x.org>");
    await this.say("RCPT TO:<b@x.org>");
    expect(await this.say("DATA")).toMatch(/^354/);
  }
  write(text: string): void {
    this.socket.write(text);
  }
  cut(): void {
    this.socket.destroy();
  }
}

async function greeted(port: number): Promise<RawClient> {
  const client = new RawClient(port);
  await client.hear();
  await client.say("EHLO me");
  return client;
}

const MAIL = { from: "a@x.org", to: "b@x.org", subject: "s", text: "t" };

describe("the SMTP listener", () => {
  test("does not accept a truncated message", async () => {
    const { port, mails } = await listen();
    const client = await greeted(port);
    await client.beginMail();
    client.write("Subject: half\r\n\r\nnot all of it\r\n");
    client.cut();
    expect((await deliver(port, MAIL)).code).toBe(250);
    expect(mails.map((mail) => mail.headers.get("subject"))).toEqual(["s"]);
  });

  test("needs no more memory for a message of lines that begin with a dot", async () => {
    const { port, mails } = await listen();
    const client = await greeted(port);
    await client.beginMail();
    const before = process.memoryUsage().heapUsed;
    let most = before;
    const measure = setInterval(() => (most = Math.max(most, process.memoryUsage().heapUsed)), 5);
    const lines = 750_000;
    expect(await client.say(`${"..\r\n".repeat(lines)}.`)).toMatch(/^250/);
    clearInterval(measure);
    expect(mails[0]!.rawSize).toBe(".\r\n".length * lines);
    // Each as an object of its own, they need 150 MB.
    expect((most - before) / 1e6).toBeLessThan(75);
  });

  test("refuses an address that no route matches before the message is sent", async () => {
    const { port, mails } = await listen({}, (to) => to === "b@x.org");
    expect((await deliver(port, { ...MAIL, to: "c@x.org" })).response).toMatch(/^550 5\.1\.1/);
    const client = createTransport({ host: "127.0.0.1", port, ignoreTLS: true });
    const sent = await client.sendMail({ ...MAIL, to: ["b@x.org", "c@x.org"] });
    client.close();
    expect([sent.accepted, sent.rejected]).toEqual([["b@x.org"], ["c@x.org"]]);
    expect(mails).toHaveLength(1);
  });

  test("delivers to each of the recipients that differ only in case", async () => {
    const { port, mails } = await listen({ recipientsMax: 2 });
    const client = await greeted(port);
    await client.say("MAIL FROM:<a@x.org>");
    for (const to of ["Box+A@x.org", "box+a@x.org", "box+a@x.org"])
      expect(await client.say(`RCPT TO:<${to}>`)).toMatch(/^250/);
    expect(await client.say("RCPT TO:<BOX+A@x.org>")).toMatch(/^452 4\.5\.3/);
    await client.say("DATA");
    expect(await client.say("Subject: s\r\n\r\nt\r\n.")).toMatch(/^250/);
    expect(mails.map(({ to }) => to)).toEqual(["Box+A@x.org", "box+a@x.org"]);
  });

  test("temporarily refuses too many recipients or messages per minute", async () => {
    const { port } = await listen({ recipientsMax: 2, messagesPerPeerPerMinute: 2 });
    const client = await greeted(port);
    await client.say("MAIL FROM:<a@x.org>");
    await client.say("RCPT TO:<1@x.org>");
    await client.say("RCPT TO:<2@x.org>");
    expect(await client.say("RCPT TO:<3@x.org>")).toMatch(/^452/);
    await client.say("RSET");
    expect(await client.say("MAIL FROM:<a@x.org>")).toMatch(/^250/);
    await client.say("RSET");
    expect(await client.say("MAIL FROM:<a@x.org>")).toMatch(/^451 4\.7\.0/);
  });

  test("refuses with 552 a message announced as too large, and one that lies about its size", async () => {
    const { port, mails } = await listen({ messageBytesMax: 2_000 });
    const client = await greeted(port);
    expect(await client.say("MAIL FROM:<a@x.org> SIZE=3000")).toMatch(/^552/);
    await client.say("MAIL FROM:<a@x.org> SIZE=10");
    await client.say("RCPT TO:<b@x.org>");
    await client.say("DATA");
    expect(await client.say(`${"x".repeat(900)}\r\n`.repeat(4) + ".")).toMatch(/^552/);
    expect(mails).toHaveLength(0);
    expect((await deliver(port, MAIL)).code).toBe(250);
  });

  test("drops the message that passes the bytes of all messages, and answers 451; the others arrive", async () => {
    const { port, mails } = await listen({ bytesInFlightMax: 100_000 });
    const line = `${"x".repeat(998)}\r\n`;
    const begin = async () => {
      const client = new RawClient(port);
      await client.hear();
      await client.say("EHLO me");
      expect(await client.say("MAIL FROM:<a@x.org>")).toMatch(/^250/);
      await client.say("RCPT TO:<b@x.org>");
      expect(await client.say("DATA")).toMatch(/^354/);
      return client;
    };
    const first = await begin();
    const second = await begin();
    first.write(line.repeat(60));
    expect(await second.say(`${line.repeat(300)}.`)).toMatch(/^451 4\.3\.2/);
    const third = await begin();
    expect(await third.say(`${line.repeat(20)}.`)).toMatch(/^250/);
    expect(await first.say(".")).toMatch(/^250/);
    expect(mails.map(({ rawSize }) => rawSize)).toEqual([20_000, 60_000]);
    // The connection of the refused message still works.
    expect(await second.say("MAIL FROM:<a@x.org>")).toMatch(/^250/);
  });

  test("a peer gets half of the room for messages: it can't keep out others' mail", async () => {
    const { port } = await listen({ bytesInFlightMax: 100_000, messageBytesMax: 50_000 });
    const half = `${"x".repeat(998)}\r\n`.repeat(48);
    const begin = async (peer: string) => {
      const client = new RawClient(port, peer);
      await client.hear();
      await client.say("EHLO me");
      await client.say("MAIL FROM:<a@x.org>");
      await client.say("RCPT TO:<b@x.org>");
      await client.say("DATA");
      return client;
    };
    (await begin("127.0.0.2")).write(half);
    const second = await begin("127.0.0.2");
    expect(await second.say(`${half}.`)).toMatch(/^451 4\.3\.2/);
    const other = await begin("127.0.0.3");
    expect(await other.say(`${half}.`)).toMatch(/^250/);
  });

  test("a message that trickles in for too long is refused, and its room is free at once", async () => {
    const { port, mails } = await listen({ bytesInFlightMax: 1_000, messageTimeoutMs: 300 });
    const slow = new RawClient(port);
    await slow.hear();
    await slow.say("EHLO me");
    await slow.say("MAIL FROM:<a@x.org>");
    await slow.say("RCPT TO:<b@x.org>");
    await slow.say("DATA");
    slow.write(`${"x".repeat(950)}\r\n`);
    await pollUntil("another message has room", async () => {
      const { code } = await deliver(port, MAIL);
      return code === 250 || { done: false, saw: code };
    });
    expect(await slow.say(".")).toMatch(/^451 4\.3\.2 The message took too long/);
    expect(mails).toHaveLength(1);
  });

  test("a message that trickles in without an end loses its connection", async () => {
    const { port } = await listen({
      messageTimeoutMs: 200,
      idleTimeoutMs: 500,
      connectionsPerPeerMax: 1,
    });
    const slow = new RawClient(port);
    await slow.hear();
    await slow.say("EHLO me");
    await slow.say("MAIL FROM:<a@x.org>");
    await slow.say("RCPT TO:<b@x.org>");
    await slow.say("DATA");
    const trickle = setInterval(() => slow.write("x\r\n"), 50);
    expect(await slow.say("x")).toMatch(/^421 .*The message took too long/);
    clearInterval(trickle);
    await pollUntil("its place is free", async () => {
      const { code } = await deliver(port, MAIL);
      return code === 250 || { done: false, saw: code };
    });
  });

  test("a client that sends commands and no message loses its connection", async () => {
    const { port } = await listen({ messageTimeoutMs: 100, idleTimeoutMs: 3_000 });
    const client = new RawClient(port);
    await client.hear();
    await client.say("EHLO me");
    const answer = await pollUntil("the connection is closed", async () => {
      const said = await client.say("NOOP");
      return said.startsWith("250") ? { done: false, saw: said } : { done: true, value: said };
    });
    expect(answer).toMatch(/^421 |^closed/);
  });

  test("an answer has at most 512 octets, in whole characters", async () => {
    const { port } = await listen({}, undefined, (mail) => mail.setReject("nö".repeat(400)));
    const { response } = await deliver(port, MAIL);
    expect(Buffer.byteLength(response)).toBeLessThan(500);
    expect(response).toMatch(/^550 5\.7\.1 (?:nö)+n?$/);
  });

  test("limits the connections of one peer", async () => {
    const { port } = await listen({ connectionsPerPeerMax: 1 });
    const first = new RawClient(port);
    expect(await first.hear()).toMatch(/^220/);
    const second = new RawClient(port);
    expect(await second.hear()).toMatch(/^421/);
    await first.say("QUIT");
    first.cut();
    await pollUntil("there is room again", async () => {
      const third = new RawClient(port);
      const greeting = await third.hear();
      third.cut();
      return greeting.startsWith("220") || { done: false, saw: greeting };
    });
  });

  test("offers STARTTLS with a certificate; with credentials, only their owners may send, over TLS", async () => {
    const keys = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const cert = makeCertificate(keys, { fromMs: Date.now() - 1e6, toMs: Date.now() + 1e9 });
    const key = keys.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const auth = { user: "relay", password: "pa55" };
    const { port, mails } = await listen({ tls: { cert, key }, auth });
    expect((await deliver(port, MAIL)).code).toBe(530);
    const send = async (password: string) => {
      const client = createTransport({
        host: "127.0.0.1",
        port,
        requireTLS: true,
        tls: { rejectUnauthorized: false },
        auth: { user: "relay", pass: password },
      });
      try {
        return (await client.sendMail(MAIL)).response;
      } catch (error) {
        return (error as { readonly response?: string }).response ?? String(error);
      } finally {
        client.close();
      }
    };
    expect(await send("wrong")).toMatch(/^535/);
    expect(await send("pa55")).toMatch(/^250/);
    expect(mails).toHaveLength(1);
  });

  test("answers a sender with a temporary error when the module never finishes", async () => {
    const never = () => new Promise(() => undefined);
    const { port, log } = await listen({ handlerTimeoutMs: 50 }, undefined, never);
    expect((await deliver(port, MAIL)).response).toMatch(/^451 /);
    expect(JSON.stringify(log.lines)).toContain("took too long");
  });

  test("temporarily fails what a module sends without a relay, and says what to set", async () => {
    const { port, log } = await listen({}, undefined, (message) => message.forward("c@x.org"));
    expect((await deliver(port, MAIL)).response).toMatch(/^451 /);
    expect(JSON.stringify(log.lines)).toContain("SMTP_URL");
  });
});

describe("a message to a hundred recipients", () => {
  const MIB = 1024 * 1024;
  const everyone = Array.from({ length: 100 }, (_, i) => `r${i}@x.org`);

  /** What one message did. `begun`: its recipients; `most`: how many were served at once. */
  async function take(bytes: number, handle: (to: string) => unknown, late?: AbortSignal) {
    const begun: string[] = [];
    let running = 0;
    let most = 0;
    const email = async (message: unknown) => {
      const { to } = message as AgentEmail;
      begun.push(to);
      most = Math.max(most, ++running);
      try {
        await new Promise((resolve) => setImmediate(resolve));
        await handle(to);
      } finally {
        running--;
      }
    };
    const raw = new Uint8Array(bytes);
    raw.set(new TextEncoder().encode("Subject: s\r\n\r\n"));
    const log = collectingLog();
    const answer = takeMessage(
      {
        module: () => ({ env: {}, mayKnow: () => true, email }),
        transport: NO_MAIL_TRANSPORT,
        unfinished: new UnfinishedWork(machineTime, log),
        time: machineTime,
        log,
      },
      { from: "a@x.org", to: everyone, raw, peer: "127.0.0.1" },
      late,
    );
    return { answer, begun, most: () => most };
  }

  test("serves all at once if it is small, and two at a time if it is large", async () => {
    for (const [bytes, atOnce] of [
      [1_000, 100],
      [10 * MIB, 4],
      [25 * MIB - 1, 2],
      [60 * MIB, 2],
    ] as const) {
      // prettier-ignore
      const { answer, begun, most } = await take(bytes, () => undefined);
      expect((await answer)._tag).toBe("Accepted");
      expect([begun.length, most()]).toEqual([100, atOnce]);
    }
  });

  test("serves the others if one fails or never finishes, and begins none once it is late", async () => {
    const failing = await take(25 * MIB, (to) => {
      if (to === "r3@x.org") throw new Error("not this one");
    });
    expect((await failing.answer)._tag).toBe("Later");
    expect(failing.begun).toEqual(everyone);

    const odd = await take(25 * MIB, (to) => {
      const { proxy, revoke } = Proxy.revocable({}, {});
      revoke();
      if (to === "r3@x.org") throw proxy;
    });
    expect((await odd.answer)._tag).toBe("Later");

    const hung = await take(25 * MIB, (to) => (to === "r3@x.org" ? new Promise(() => {}) : null));
    await pollUntil("the others are served", () => {
      const done = hung.begun.length === 100;
      return done ? { done, value: true } : { done, saw: hung.begun.length };
    });

    const late = new AbortController();
    const stopped = await take(25 * MIB, (to) => to === "r3@x.org" && late.abort(), late.signal);
    expect((await stopped.answer)._tag).toBe("Later");
    expect(stopped.begun.length).toBeLessThan(6);
  });
});
