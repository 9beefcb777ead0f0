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
/** Take-overs, a retry's pauses and a busy machine; usual are 20 s. */
const ANSWER_TIMEOUT_MS = 300_000;
const TOKEN_MS = 10;
const PRICE = 3;

/** A question while it is asked. */
interface Asked {
  readonly point: Point;
  /** Its kill is armed until this has been called. */
  killed: (() => void) | undefined;
  /** What its reader has, for the model to be asked no less. */
  seen: string;
}

/** One life of a host: its requests tell which one they come from. */
interface Life {
  readonly started: Promise<AgentsProcess>;
  isOver: boolean;
}

export class AssistantRig {
  kills = 0;
  private readonly installation: Installation;
  private readonly model: Model;
  private readonly lives = new Map<string, Life>();
  /** By agent. */
  private readonly asked = new Map<string, Asked>();
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
    for (const name of ["a", "b"]) await rig.startHost(name).started;
    await installation.shared(2);
    return rig;
  }

  async stop(): Promise<void> {
    await this.installation.stop();
    await this.model.stop();
  }

  /** Asks a question for each point, all at once. Resolves to what did not hold. */
  async round(round: number): Promise<string[]> {
    const wrong = await Promise.all(POINTS.map((point) => this.ask(point, round)));
    return [...wrong.flat(), ...this.mistakes.splice(0), ...this.model.mistakes.splice(0)];
  }

  /** Asks one question, and kills the host that has it at this point. */
  private async ask(point: Point, round: number): Promise<string[]> {
    const agent = `${point.replace(/ /g, "-")}-${round}`;
    const question = `why ${agent}`;
    const expected = tokensOf(question).join("");
    const asked: Asked = { point, killed: undefined, seen: "" };
    const killed = new Promise<void>((done) => (asked.killed = done));
    this.asked.set(agent, asked);
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
      // The call is not durable, and other questions' kills may end it: asked twice is asked once.
      const ask = async (): Promise<true> => {
        await client.call("ask", ["1", question]);
        return true;
      };
      await pollUntil(`${agent} is asked`, ask, { timeoutMs: ANSWER_TIMEOUT_MS });
      const followed = client.follow<string, object>("1", {
        onChunk: (token) => {
          text += token;
          asked.seen = text;
        },
      });
      const read = this.readEvents(agent);
      const result = await within(`the answer of ${agent}`, followed);
      const events = await within(`the events of ${agent}`, read);
      await within(`the kill at "${point}"`, killed);
      const state = await pollUntil("the state", () => (client.state as State | undefined)?.answered && client.state, { timeoutMs: ANSWER_TIMEOUT_MS }); // prettier-ignore
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

  /** What the model counted of the agent, and the two of each that differ. */
  private checks(agent: string, pairs: Record<string, [unknown, unknown]>): string[] {
    const wrong: string[] = [];
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
    const asked = this.asked.get(agent);
    if (asked === undefined) return;
    const { prefixes } = this.model;
    if (point === "answer asked" && (prefixes.get(agent)?.at(-1) ?? 0) < asked.seen.length)
      this.mistakes.push(
        `${agent}: the model was asked for what a reader had: ${asked.seen.length} characters`,
      );
    const { killed } = asked;
    const life = this.lives.get(via)!;
    // A host that another question has killed did not get here: it comes again.
    if (killed === undefined || asked.point !== point || life.isOver) return;
    [asked.killed, life.isOver] = [undefined, true];
    await (await life.started).kill();
    this.kills++;
    await this.startHost(via.split("-")[0]!).started;
    killed();
  }

  private startHost(name: string): Life {
    const via = `${name}-${this.lives.size}`;
    const env = { MODEL_URL: `${this.model.url}/${via}` };
    const life = { started: this.installation.startHost(name, { env }), isOver: false };
    this.lives.set(via, life);
    return life;
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

/** So many rounds, one after the other, with a kill at each point. What did not hold. */
export async function killAtEachPoint(
  times: number,
  say: (line: string) => void,
): Promise<{ readonly kills: number; readonly wrong: string[] }> {
  const rig = await AssistantRig.start();
  const wrong: string[] = [];
  try {
    for (let round = 1; round <= times; round++) {
      const found = await rig.round(round);
      wrong.push(...found);
      say(`round ${round}: ${rig.kills} kills, ${found.length === 0 ? "all held" : found.join("; ")}`); // prettier-ignore
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
