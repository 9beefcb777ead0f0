/**
 * Turns with steps on real processes: a nats-server, a gateway, two hosts, and the world that the
 * steps call. The host that reaches an agent's point is killed there, with all other agents that it
 * has; what has to hold is checked when all inputs are done.
 */
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { sign } from "../../services/webhooks/sign.ts";
import { Installation, SECRET } from "../faults/Installation.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { POINTS, type Input, type Point, type Row } from "./killModule.ts";
import { startWorld, type World } from "./World.ts";

const MODULE = fileURLToPath(new URL("./killModule.ts", import.meta.url));
/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 3_000;
/** Each kill costs a take-over; usual are 5 s. */
const DONE_TIMEOUT_MS = 300_000;
/** Other turns of each agent. */
const OTHERS = 4;
/** What a turn writes. */
const WRITES = 3;

interface Told {
  readonly count: number;
  readonly rows: ReadonlyArray<Row>;
}

export class KillRig {
  kills = 0;
  private readonly folder = tempFolder("kills");
  private readonly installation: Installation;
  private readonly world: World;
  private readonly hosts = new Map<string, AgentsProcess>();
  private inputs = 0;

  private constructor(installation: Installation, world: World) {
    this.installation = installation;
    this.world = world;
  }

  static async start(): Promise<KillRig> {
    let rig: KillRig | undefined;
    const world = await startWorld(async (agent, step, via) => rig?.asked(agent, step, via));
    const installation = await Installation.start({
      shards: 8,
      leaseTtlMs: LEASE_TTL_MS,
      module: MODULE,
    });
    rig = new KillRig(installation, world);
    for (const name of ["a", "b"]) await rig.startHost(name);
    await installation.shared(2);
    return rig;
  }

  async stop(): Promise<void> {
    await this.installation.stop();
    await this.world.stop();
    this.folder.remove();
  }

  /** One agent for each point, all at once. Resolves to what did not hold. */
  async round(round: number): Promise<string[]> {
    const agents = POINTS.map((point, n) => ({
      name: `${point.replace(/ /g, "-")}-${round}`,
      point,
      run: (n + round) % 2 === 0 ? ("webhook" as const) : ("queue" as const),
    }));
    for (const { name, point } of agents) writeFileSync(join(this.folder.path, name), point);
    const sent = agents.flatMap(({ name, run }) => {
      const others = Array.from({ length: OTHERS }, () => this.send({ agent: name, run: "count" }));
      return [this.send({ agent: name, run }), ...others];
    });
    await this.killAsReached(agents.length);
    await Promise.all(sent);
    const wrong = await Promise.all(agents.map(({ name }) => this.checks(name)));
    return wrong.flat();
  }

  /** Until so many agents were killed where they were to be. */
  private async killAsReached(count: number): Promise<void> {
    const until = this.kills + count;
    await pollUntil(
      "each agent was killed at its point",
      async () => {
        for (const file of readdirSync(this.folder.path)) {
          if (!file.endsWith(".reached")) continue;
          const via = readFileSync(join(this.folder.path, file), "utf8");
          if (via !== "") await this.kill(file.slice(0, -".reached".length), via);
        }
        return this.kills >= until || { done: false, saw: readdirSync(this.folder.path) };
      },
      { timeoutMs: DONE_TIMEOUT_MS },
    );
  }

  private async kill(agent: string, via: string): Promise<void> {
    rmSync(join(this.folder.path, agent), { force: true });
    await this.hosts.get(via)!.kill();
    rmSync(join(this.folder.path, `${agent}.reached`), { force: true });
    this.kills++;
    await this.startHost(via);
  }

  /** The world was asked: it answers nothing where the host is to be killed now. */
  private async asked(agent: string, step: string, via: string): Promise<void> {
    const armed = join(this.folder.path, agent);
    try {
      if (readFileSync(armed, "utf8") !== (`${step} asked` satisfies string as Point)) return;
    } catch {
      return;
    }
    writeFileSync(`${armed}.reached`, via);
    await new Promise(() => undefined);
  }

  private async startHost(name: string): Promise<void> {
    const env = { VIA: name, KILLS: this.folder.path, WORLD: this.world.url };
    this.hosts.set(name, await this.installation.startHost(name, [], env));
  }

  /** As a provider: again, with the same id, until it is taken. */
  private async send(input: Input): Promise<void> {
    const text = JSON.stringify(input);
    const headers = { ...sign.github(text, SECRET, { id: `${++this.inputs}` }) };
    await pollUntil(
      `${text} is taken`,
      async () => {
        const url = `${this.installation.gateway.url}/webhooks/orders`;
        const response = await fetch(url, { method: "POST", headers, body: text });
        return response.ok || { done: false, saw: response.status };
      },
      { timeoutMs: DONE_TIMEOUT_MS, intervalMs: 200 },
    );
  }

  private async checks(name: string): Promise<string[]> {
    const { count, rows } = await this.told(name);
    const wrong: string[] = [];
    const own = rows.filter(({ run }) => run !== "other");
    const results = await this.results(name);
    const [first, second] = [results.get("1:first"), results.get("1:second")];
    const whats = own.map(({ what }) => what);
    const one = ["before", `between ${first?.[0]}`, `after ${second?.[0]}`];
    if (JSON.stringify(whats) !== JSON.stringify(one))
      wrong.push(`its rows are ${JSON.stringify(whats)}, not ${JSON.stringify(one)}`);
    if (new Set(own.map(({ run }) => run)).size !== 1) wrong.push("its rows are of several runs");
    if (rows.length - own.length !== OTHERS)
      wrong.push(`${rows.length - own.length} of ${OTHERS} other turns are there`);
    if (count !== WRITES + OTHERS) wrong.push(`its state counts ${count} writes`);
    for (const [step, stored] of [["first", first], ["second", second]] as const) {
      const calls = this.world.calls.filter((call) => call.agent === name && call.step === step);
      const keys = new Set(calls.map(({ key }) => key));
      if (keys.size !== 1 || keys.has(""))
        wrong.push(`${step} was called under the keys ${[...keys].join(", ")}`);
      if (stored?.length !== 1) wrong.push(`the journal has ${stored?.length ?? 0} results of ${step}`); // prettier-ignore
      if (calls.at(-1)?.token !== stored?.[0]) wrong.push(`${step} was called after it was stored`);
      if (step === "second" && calls.some(({ body }) => body !== first?.[0]))
        wrong.push("the second step was given another result of the first");
    } // prettier-ignore
    return wrong.map((each) => `${name}: ${each}`);
  }

  /** When its inputs are done. */
  private told(name: string): Promise<Told> {
    const url = `${this.installation.gateway.url}/agents/order/${name}`;
    return pollUntil(
      `${name} is done`,
      async () => {
        const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
        const told = (await response.json()) as Told;
        const ended = told.rows.some(({ what }) => what.startsWith("after"));
        const done = ended && told.count >= WRITES + OTHERS;
        return done ? { done, value: told } : { done, saw: told };
      },
      { timeoutMs: DONE_TIMEOUT_MS, intervalMs: 100 },
    );
  }

  /** What the journal has of each step. */
  private async results(name: string): Promise<ReadonlyMap<string, ReadonlyArray<unknown>>> {
    const results = new Map<string, unknown[]>();
    const { journal } = this.installation.inspector;
    for await (const { data } of journal.read(agentId("Order", name), { fromSeq: 1 as Sequence }))
      for (const { steps = [] } of decodeEvent(data).head.turns)
        for (const { key, result } of steps) results.set(key, [...(results.get(key) ?? []), result]); // prettier-ignore
    return results;
  }
}

/** So many rounds, one after the other. What did not hold. */
export async function killSteps(
  times: number,
  say: (line: string) => void,
): Promise<{ readonly kills: number; readonly wrong: string[] }> {
  const rig = await KillRig.start();
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
