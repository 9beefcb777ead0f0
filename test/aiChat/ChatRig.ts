/**
 * Chats of the reference's `AIChatAgent` as processes: a nats-server, a gateway, two hosts, and the
 * model, which this process plays word by word. Hosts are killed (SIGKILL) while an answer is
 * written, and the chat is checked afterwards.
 *
 * 1. The answer is the model's whole text, with no word lost or repeated: the agent continues by
 *    itself from what it had stored.
 * 2. The model is only asked to continue a beginning of its own text.
 * 3. The chat has each question and each answer once, and a next question is answered.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { WebSocket } from "ws";
import { Installation } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { installApp } from "./installApp.ts";

/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 3_000;
/** A take-over, the agent's own pause before it continues, and a busy machine. */
const ANSWER_TIMEOUT_MS = 120_000;
const WORD_MS = 10;
const WORDS = 40;

/** The words of an answer at which its host is killed. */
export const POINTS: Readonly<Record<string, ReadonlyArray<number>>> = {
  "before the first word": [0],
  "after words that are not stored yet": [3],
  "in the middle": [25],
  "after the last word": [WORDS],
  "twice in one answer": [12, 30],
};

interface Asked {
  readonly chat: string;
  readonly question: string;
  /** How far the answer had come. */
  readonly said: string;
  /** Questions of the chat so far. */
  readonly turns: number;
}
interface Message {
  readonly id: string;
  readonly role: string;
  readonly parts: ReadonlyArray<{ readonly type: string; readonly text?: string }>;
}

export class ChatRig {
  kills = 0;
  private readonly hosts = new Map<string, AgentsProcess>();
  /** Words at which a host is still to be killed, by question. */
  private readonly armed = new Map<string, number[]>();
  private readonly mistakes: string[] = [];
  /** Hosts that start in the place of killed ones. */
  private readonly starts: Promise<void>[] = [];
  private readonly model = createServer((request, response) => void this.answer(request, response));
  private installation!: Installation;

  static async start(): Promise<ChatRig> {
    const rig = new ChatRig();
    rig.model.listen(0, "127.0.0.1");
    await once(rig.model, "listening");
    rig.installation = await Installation.start({
      shards: 8,
      leaseTtlMs: LEASE_TTL_MS,
      module: installApp(),
    });
    for (const name of ["a", "b"]) await rig.startHost(name);
    await rig.installation.shared(2);
    return rig;
  }

  async stop(): Promise<void> {
    await Promise.allSettled(this.starts);
    await this.installation.stop();
    this.model.closeAllConnections();
    this.model.close();
  }

  /** One question with these kills, and one without. Resolves to what did not hold. */
  async ask(chat: string, words: ReadonlyArray<number>): Promise<string[]> {
    const [first, second] = [`why ${chat}`, `and then ${chat}`];
    this.armed.set(first, [...words]);
    const questions: string[] = [];
    for (const question of [first, second]) {
      questions.push(question);
      await this.send(chat, question);
      await this.untilAnswered(chat, questions);
    }
    const wrong = this.mistakes.splice(0);
    const left = this.armed.get(first)!;
    if (left.length > 0) wrong.push(`no host was killed at word ${left.join(", ")}`);
    return wrong.map((each) => `${chat}: ${each}`);
  }

  /** As the reference's client asks; the answer is read elsewhere. */
  private async send(chat: string, question: string): Promise<void> {
    const before = await this.messages(chat);
    const message = { id: question, role: "user", parts: [{ type: "text", text: question }] };
    const body = JSON.stringify({ messages: [...before, message] });
    const { host } = new URL(this.installation.gateway.url);
    const socket = new WebSocket(`ws://${host}/agents/chat/${chat}`);
    await once(socket, "open");
    const init = { method: "POST", body };
    socket.send(
      JSON.stringify({ type: "cf_agent_use_chat_request", id: question, url: "/", init }),
    );
    await pollUntil("the question is stored", async () => (await this.messages(chat)).some(({ id }) => id === question)); // prettier-ignore
    socket.close();
  }

  /** Rules 1 and 3. */
  private async untilAnswered(chat: string, questions: ReadonlyArray<string>): Promise<void> {
    const expected = questions.flatMap((question) => [question, answerTo(question).join("")]);
    await pollUntil(
      `the answer to ${questions.at(-1)}`,
      async () => {
        const texts = (await this.messages(chat)).map(textOf);
        const isIt = JSON.stringify(texts) === JSON.stringify(expected);
        return isIt || { done: false, saw: texts };
      },
      { timeoutMs: ANSWER_TIMEOUT_MS, intervalMs: 100 },
    );
  }

  private async messages(chat: string): Promise<ReadonlyArray<Message>> {
    const url = `${this.installation.gateway.url}/agents/chat/${chat}/get-messages`;
    // While its host is away the gateway says so.
    const response = await pollUntil(`the messages of ${chat}`, async () => {
      const each = await fetch(url);
      return each.ok ? { done: true, value: each } : { done: false, saw: await each.text() };
    });
    return (await response.json()) as ReadonlyArray<Message>;
  }

  /** The model's side of one request of a host, whose name is the path. */
  private async answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const host = request.url!.slice(1);
    const { question, said, turns } = JSON.parse(await text(request)) as Asked;
    const words = answerTo(question);
    const done = words.findIndex((_, n) => words.slice(0, n).join("") === said);
    const begin = said === words.join("") ? words.length : done;
    if (begin < 0) this.mistakes.push(`the model was to go on from ${JSON.stringify(said)}`); // rule 2
    if (turns !== (question.startsWith("why") ? 1 : 2))
      this.mistakes.push(`the model saw ${turns} questions at ${JSON.stringify(question)}`);
    response.writeHead(200, { "content-type": "text/plain" });
    response.flushHeaders();
    for (let word = Math.max(begin, 0); ; word++) {
      if (this.armed.get(question)?.[0] === word) {
        this.armed.get(question)!.shift();
        await this.kill(host);
        return void response.destroy();
      }
      if (word === words.length) return void response.end();
      response.write(words[word]);
      await new Promise((resolve) => setTimeout(resolve, WORD_MS));
    }
  }

  private async kill(host: string): Promise<void> {
    this.kills++;
    await this.hosts.get(host)!.kill();
    const start = this.startHost(host);
    this.starts.push(start);
    await start;
  }

  private async startHost(name: string): Promise<void> {
    const { port } = this.model.address() as AddressInfo;
    const env = { MODEL_URL: `http://127.0.0.1:${port}/${name}` };
    this.hosts.set(name, await this.installation.startHost(name, { env }));
  }
}

/** The model's answer to a question, in which all words differ. */
const answerTo = (question: string): ReadonlyArray<string> =>
  Array.from({ length: WORDS }, (_, n) => `${question.split(" ", 1)[0]}-${n} `);

const textOf = ({ parts }: Message): string =>
  parts
    .filter(({ type }) => type === "text")
    .map((part) => part.text ?? "")
    .join("");
