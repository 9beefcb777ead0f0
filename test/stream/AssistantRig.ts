/**
 * The assistant (`examples/assistant`) as processes: a nats-server, a gateway, two hosts, and its
 * model. Hosts are killed where one of the agent's requests to the model or a tool is, and
 * everything that follows from that is checked: the answer, each reader's text, what the tools and
 * the model were asked.
 */
import { fileURLToPath } from "node:url";
import { WebSocket } from "ws";
import {
  POINTS,
  startModel,
  tokensOf,
  type Model,
  type Point,
} from "../../examples/assistant/model.ts";
import { AgentClient } from "../../services/client/index.ts";
import { Installation } from "../kit/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";

const MODULE = fileURLToPath(new URL("../../examples/assistant/server.ts", import.meta.url));
/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 3_000;
/** A take-over, a retry's pause and a busy machine; usual are 6 s. */
const ANSWER_TIMEOUT_MS = 90_000;
const TOKEN_MS = 10;
const PRICE = 3;

interface Armed {
  readonly point: Point;
  readonly agent: string;
  /** Kills are armed until they have happened. */
  readonly done: () => void;
}

export class AssistantRig {
  kills = 0;
  private readonly installation: Installation;
  private readonly model: Model;
  private readonly hosts = new Map<string, AgentsProcess>();
  private armed: Armed | undefined;
  /** What a reader of the present question has, for the model to be asked no less. */
  private seen = "";
  private readonly mistakes: string[] = [];

  private constructor(installation: Installation, model: Model) {
    this.installation = installation;
    this.model = model;
  }

  static async start(): Promise<AssistantRig> {
    let rig: AssistantRig | undefined;
    const model = await startModel({
      tokenMs: TOKEN_MS,
      at: (point, agent, via) => rig?.at(point, agent, via),
    });
    const installation = await Installation.start({
      shards: 8,
      leaseTtlMs: LEASE_TTL_MS,
      module: MODULE,
    });
    rig = new AssistantRig(installation, model);
    for (const name of ["a", "b"]) await rig.startHost(name);
    await installation.shared(2);
    return rig;
  }

  async stop(): Promise<void> {
    await this.installation.stop();
    await this.model.stop();
  }

  /**
   * Asks one question and kills the host that has it at this point. Resolves to what did not hold.
   */
  async ask(point: Point, round: number): Promise<string[]> {
    const agent = `${point.replace(/ /g, "-")}-${round}`;
    const question = `why ${agent}`;
    const expected = tokensOf(question).join("");
    this.seen = "";
    const killed = new Promise<void>((done) => (this.armed = { point, agent, done }));
    const client = new AgentClient({
      agent: "AssistantAgent",
      name: agent,
      host: new URL(this.installation.gateway.url).host,
      WebSocket,
      minReconnectionDelay: 10,
      maxReconnectionDelay: 100,
    });
    let text = "";
    try {
      await client.ready;
      await client.call("ask", ["1", question]);
      const followed = client.follow<string, object>("1", {
        onChunk: (token) => {
          text += token;
          this.seen = text;
        },
      });
      const read = this.readEvents(agent);
      const result = await within(`the answer of ${agent}`, followed);
      const events = await within(`the events of ${agent}`, read);
      await within(`the kill at "${point}"`, killed);
      const state = await pollUntil("the state", () => (client.state as State | undefined)?.answered && client.state); // prettier-ignore
      return this.checks(agent, {
        "the client's text": [text, expected],
        "the events' text": [events, expected],
        "the result": [result, { tokens: tokensOf(question).length, price: PRICE }],
        "the state": [state, { answered: 1, charged: PRICE }],
      });
    } finally {
      client.close();
    }
  }

  /** What the model counted, and the two of each that differ. */
  private checks(agent: string, pairs: Record<string, [unknown, unknown]>): string[] {
    const wrong = [...this.mistakes.splice(0), ...this.model.mistakes.splice(0)];
    for (const [what, [is, should]] of Object.entries(pairs))
      if (JSON.stringify(is) !== JSON.stringify(should))
        wrong.push(`${what} is ${JSON.stringify(is)}, not ${JSON.stringify(should)}`);
    for (const [name, runs] of Object.entries(this.model.tools)) {
      const keys = [...runs.keys()].filter((key) => key.includes(agent));
      if (keys.length !== 1) wrong.push(`${name} ran under the keys ${keys.join(", ")}`);
    }
    return wrong.map((each) => `${agent}: ${each}`);
  }

  private async at(point: Point, agent: string, via: string): Promise<void> {
    const { prefixes } = this.model;
    if (point === "answer asked" && (prefixes.get(agent)?.at(-1) ?? 0) < this.seen.length)
      this.mistakes.push(
        `the model was asked for what a reader had: ${this.seen.length} characters`,
      );
    const { armed } = this;
    if (armed?.point !== point || armed.agent !== agent) return;
    this.armed = undefined;
    this.kills++;
    await this.hosts.get(via)!.kill();
    await this.startHost(via);
    armed.done();
  }

  private async startHost(name: string): Promise<void> {
    const env = { MODEL_URL: `${this.model.url}/${name}` };
    this.hosts.set(name, await this.installation.startHost(name, { env }));
  }

  /** As an `EventSource`: again from its last event's id, until the end. */
  private async readEvents(agent: string): Promise<string> {
    const url = `${this.installation.gateway.url}/agents/assistant-agent/${agent}?id=1`;
    let place: string | undefined;
    let text = "";
    for (;;) {
      try {
        const headers = place === undefined ? {} : { "last-event-id": place };
        const response = await fetch(url, { headers });
        if (response.status === 204) return text;
        let rest = "";
        for await (const bytes of response.body!.pipeThrough(new TextDecoderStream())) {
          const blocks = (rest + bytes).split("\n\n");
          rest = blocks.pop()!;
          for (const block of blocks) {
            const id = /^id: (.*)$/m.exec(block)?.[1];
            const data = /^data: (.*)$/m.exec(block)?.[1];
            if (id !== undefined) place = id;
            if (block.includes("event: end")) return text;
            if (data !== undefined && !block.includes("event:")) text += String(JSON.parse(data));
          }
        }
      } catch {
        // Its host was lost, or nobody owns the shard yet.
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

interface State {
  readonly answered: number;
}

/** Kills at each point so many times, one after the other. What did not hold. */
export async function killAtEachPoint(
  times: number,
  say: (line: string) => void,
): Promise<{ readonly kills: number; readonly wrong: string[] }> {
  const rig = await AssistantRig.start();
  const wrong: string[] = [];
  try {
    for (let round = 1; round <= times; round++)
      for (const point of POINTS) {
        const found = await rig.ask(point, round);
        wrong.push(...found);
        say(`round ${round}, ${point}: ${found.length === 0 ? "held" : found.join("; ")}`);
      }
    return { kills: rig.kills, wrong };
  } finally {
    await rig.stop();
  }
}

async function within<A>(what: string, promise: Promise<A>): Promise<A> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`${what} did not come within ${ANSWER_TIMEOUT_MS} ms`)),
      ANSWER_TIMEOUT_MS,
    );
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
