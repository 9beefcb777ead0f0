/**
 * Turns with steps, fibers and workflows, on real processes: a nats-server, a gateway, two hosts,
 * and the world that the steps call. The host that reaches an agent's point is killed there,
 * with all other agents that it has; what has to hold is checked when all inputs are done.
 */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { WebSocket } from "ws";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import { AgentClient } from "../../services/client/AgentClient.ts";
import { sign } from "../../services/webhooks/sign.ts";
import { Installation, SECRET } from "../kit/Installation.ts";
import { messageOf } from "../../core/errors/thrown.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import {
  FAILURE,
  FIBER_POINTS,
  POINTS,
  UNDO_POINTS,
  type Input,
  type Point,
  type Row,
} from "./killModule.ts";
import { startWorld, type World } from "./World.ts";

const MODULE = fileURLToPath(new URL("./killModule.ts", import.meta.url));
/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 3_000;
/** Between two kills, and then for each agent: each kill costs a take-over. Usual are 5 s. */
const DONE_TIMEOUT_MS = 600_000;
/** Other turns of each agent. */
const OTHERS = 4;
/** What a turn writes. */
const WRITES = 3;
type Run = Input["run"] | "call" | "fail";
/** How the work of a turn comes, in turn. */
const RUNS = ["webhook", "queue", "call"] as const;
/** What fails for good, in turn. */
const FAILING = ["fail", "fiber", "workflow"] as const;
/** The error that a failed fiber or workflow reports. */
const UNDONE = `${FAILURE} (undone: second, first)`;
/** Who decides. */
const PEOPLE = ["ann", "bob"] as const;

export const ALL_POINTS: ReadonlyArray<Point> = [...POINTS, ...UNDO_POINTS, ...FIBER_POINTS];

interface Told {
  readonly count: number;
  readonly rows: ReadonlyArray<Row>;
  readonly approvals: ReadonlyArray<string>;
  /** Errors of fibers. */
  readonly failed: ReadonlyArray<string>;
}

export class KillRig {
  /** Agents that were killed at their points. */
  kills = 0;
  /** Hosts that died. One that several agents have at their points dies for all of them. */
  deaths = 0;
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
  async round(round: number, points: ReadonlyArray<Point>): Promise<string[]> {
    const agents = points.map((point, n) => ({
      name: `${point.replace(/ /g, "-")}-${round}`,
      point,
      run: runOf(point, n + round),
    }));
    for (const { name, point } of agents) writeFileSync(join(this.folder.path, name), point);
    const sent = agents.flatMap(({ name: agent, run }) => [
      run === "call"
        ? this.call(agent)
        : run === "fail"
          ? this.fail(agent)
          : this.send({ agent, run }),
      ...(run === "ask" ? PEOPLE : []).map((by) => this.send({ agent, run: "decide", by })),
      ...Array.from({ length: OTHERS }, () => this.send({ agent, run: "count" })),
    ]);
    await this.killAsReached(agents.length);
    const wrong = await Promise.all(sent);
    for (const { name, run } of agents)
      if (run === "fail") wrong.push(await this.undoChecks(name));
      else if (isOneOf(FAILING, run)) wrong.push(await this.failureChecks(name, run));
      else if (run === "ask") wrong.push(await this.approvalChecks(name));
      else wrong.push(await this.checks(name));
    return wrong.flat();
  }

  /** Until so many agents were killed where they were to be: hosts die side by side. */
  private async killAsReached(count: number): Promise<void> {
    const until = this.kills + count;
    await Promise.all([...this.hosts.keys()].map((via) => this.killUntil(until, via)));
  }

  /** Kills the host whenever agents of it are where they are to be killed. */
  private async killUntil(until: number, via: string): Promise<void> {
    while (this.kills < until) {
      const before = this.kills;
      await pollUntil(
        "another agent was killed at its point",
        async () => {
          const files = readdirSync(this.folder.path);
          const agents = files.filter((file) => file.endsWith(`@${via}`)).map((file) => file.slice(0, -via.length - 1)); // prettier-ignore
          if (agents.length > 0) await this.kill(via, agents);
          return this.kills > before || { done: false, saw: files };
        },
        { timeoutMs: DONE_TIMEOUT_MS },
      );
    }
  }

  private async kill(via: string, agents: ReadonlyArray<string>): Promise<void> {
    const armed = agents.filter((agent) => existsSync(join(this.folder.path, agent)));
    for (const agent of armed) rmSync(join(this.folder.path, agent));
    await this.hosts.get(via)!.kill();
    for (const agent of agents) rmSync(join(this.folder.path, `${agent}@${via}`));
    this.deaths++;
    this.kills += armed.length;
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
    writeFileSync(`${armed}@${via}`, "");
    await new Promise(() => undefined);
  }

  private async startHost(name: string): Promise<void> {
    const env = { VIA: name, KILLS: this.folder.path, WORLD: this.world.url };
    this.hosts.set(name, await this.installation.startHost(name, { env }));
  }

  /** Both are told which run it was, and the rows are that run's. */
  private async call(name: string): Promise<string[]> {
    const told = await this.toldTwice(name, "work");
    const { rows } = await this.told(name, isAfter);
    const runs = rows.filter(({ run }) => run !== "other").map(({ run }) => run);
    return told.every((run) => run === runs.at(-1))
      ? []
      : [`${name}: its caller was told ${told.join(" and ")}; its rows are of ${runs.join()}`];
  }

  private async fail(name: string): Promise<string[]> {
    const told = await this.toldTwice(name, "fail");
    return told.every((what) => what === FAILURE)
      ? []
      : [`${name}: its caller was told ${told.join(" and ")}`];
  }

  /** What a page is told that calls a method twice, with one key. */
  private async toldTwice(name: string, method: string): Promise<string[]> {
    const { host } = new URL(this.installation.gateway.url);
    const client = new AgentClient({ agent: "order", name, host, protocol: "ws", WebSocket });
    try {
      const ask = (): Promise<string> =>
        client.call<string>(method, [], { key: name, timeout: 0 }).catch(messageOf);
      return [await ask(), await ask()];
    } finally {
      client.close();
    }
  }

  /** As a provider: again, with the same id, until it is taken. */
  private async send(input: Input): Promise<string[]> {
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
    return [];
  }

  private async checks(name: string): Promise<string[]> {
    const { count, rows } = await this.told(name, isAfter);
    const wrong: string[] = [];
    const own = rows.filter(({ run }) => run !== "other");
    const results = await this.results(name);
    const [first, second, third] = ["first", "second", "third"].map((step) => results.get(step));
    const whats = own.map(({ what }) => what);
    const one = ["before", `between ${first?.[0]}`, `after ${second?.[0]}, ${third?.[0]}`];
    if (JSON.stringify(whats) !== JSON.stringify(one))
      wrong.push(`its rows are ${JSON.stringify(whats)}, not ${JSON.stringify(one)}`);
    if (new Set(own.map(({ run }) => run)).size !== 1) wrong.push("its rows are of several runs");
    if (rows.length !== WRITES + OTHERS || count !== rows.length)
      wrong.push(`it has ${rows.length} rows, and its state counts ${count} writes`);
    wrong.push(...this.callChecks(name, "first", results, ""));
    wrong.push(...this.callChecks(name, "second", results, first?.[0]));
    wrong.push(...this.callChecks(name, "third", results, second?.[0]));
    return wrong.map((each) => `${name}: ${each}`);
  }

  private async undoChecks(name: string): Promise<string[]> {
    const { count, rows } = await this.told(name, () => true);
    const results = await this.results(name);
    const wrong: string[] = [];
    const own = rows.filter(({ run }) => run !== "other");
    // What a failed turn wrote stays, once.
    if (own.length !== 1) wrong.push(`its own rows are ${JSON.stringify(own)}`);
    if (rows.length - own.length !== OTHERS || count !== rows.length)
      wrong.push(`it has ${rows.length} rows, and its state counts ${count} writes`);
    wrong.push(...this.callChecks(name, "first", results, ""));
    wrong.push(...this.callChecks(name, "second", results, ""));
    wrong.push(...this.callChecks(name, "undo-second", results, results.get("second")?.[0]));
    wrong.push(...this.callChecks(name, "undo-first", results, results.get("first")?.[0]));
    wrong.push(...this.undoOrder(name));
    return wrong.map((each) => `${name}: ${each}`);
  }

  /** The checks of a fiber or workflow. */
  private async failureChecks(name: string, run: Run): Promise<string[]> {
    const errorsOf = ({ rows, failed }: Told): ReadonlyArray<string> =>
      run === "fiber" ? failed : rows.flatMap((row) => (row.run === "workflow" ? [row.what] : []));
    const told = await this.told(name, (each) => errorsOf(each).length > 0);
    const wrong = this.undoOrder(name);
    if (errorsOf(told).join() !== UNDONE) wrong.push(`it failed with ${errorsOf(told).join()}`);
    for (const step of ["first", "second"]) {
      const [calls, undos] = [this.callsOf(name, step), this.callsOf(name, `undo-${step}`)];
      for (const made of [calls, undos])
        if (new Set(made.map(({ key }) => key)).size !== 1 || made[0]!.key === "")
          wrong.push(`${step}: it was called under ${made.map(({ key }) => key).join()}`);
      if (calls[0]?.key === undos[0]?.key) wrong.push(`${step} and its undo have one key`);
      if (undos.some(({ body }) => body !== calls.at(-1)?.token))
        wrong.push(`the undo of ${step} was given another result`);
    }
    return wrong.map((each) => `${name}: ${each}`);
  }

  private callsOf(name: string, step: string) {
    return this.world.calls.filter((call) => call.agent === name && call.step === step);
  }

  private undoOrder(name: string): string[] {
    const order = this.world.calls.filter((call) => call.agent === name).map(({ step }) => step);
    if (order.lastIndexOf("undo-second") > order.indexOf("undo-first"))
      return ["the first step was undone before the second"];
    return [];
  }

  private async approvalChecks(name: string): Promise<string[]> {
    const { count, rows, approvals } = await this.told(name, (told) =>
      told.rows.some(({ run }) => run === "asker"),
    );
    const of = (run: string): string[] =>
      rows.filter((row) => row.run === run).map(({ what }) => what);
    const wrong: string[] = [];
    const votes = of("voter");
    const [taken, ...more] = votes.filter((vote) => vote.endsWith(" taken"));
    const by = taken?.split(" ")[0];
    if (votes.length !== PEOPLE.length || more.length > 0) wrong.push(`it took ${votes.join()}`);
    const paid = this.world.calls.filter((call) => call.agent === name && call.step === "paid");
    const token = paid.at(-1)?.token;
    if (of("asker").join() !== `answered by ${by}, ${token}`)
      wrong.push(`who asked was ${of("asker").join()}; the last call gave ${token}`);
    if (new Set(paid.map(({ key }) => key)).size !== 1 || paid[0]!.key === "")
      wrong.push(`paid was called under the keys ${paid.map(({ key }) => key).join(", ")}`);
    if (paid.some(({ body }) => body !== by)) wrong.push("paid was told another person");
    if (approvals.join() !== `approved ${by}`) wrong.push(`its approvals are ${approvals.join()}`);
    if (count !== rows.length) wrong.push(`it has ${rows.length} rows, and counts ${count} writes`);
    return wrong.map((each) => `${name}: ${each}`);
  }

  /** `told`: what each call of the step has to carry. */
  private callChecks(
    agent: string,
    step: string,
    results: ReadonlyMap<string, ReadonlyArray<unknown>>,
    told: unknown,
  ): string[] {
    const calls = this.world.calls.filter((call) => call.agent === agent && call.step === step);
    const keys = new Set(calls.map(({ key }) => key));
    const stored = results.get(step) ?? [];
    const wrong: string[] = [];
    if (keys.size !== 1 || keys.has(""))
      wrong.push(`${step} was called under the keys ${[...keys].join(", ")}`);
    if (stored.length !== 1) wrong.push(`the journal has ${stored.length} results of ${step}`);
    // An undo has no result.
    if (!step.startsWith("undo") && calls.at(-1)?.token !== stored[0])
      wrong.push(`${step} was called after it was stored`);
    if (calls.some(({ body }) => body !== told)) wrong.push(`${step} was given another result`);
    return wrong;
  }

  /** When its inputs are done. */
  private told(name: string, isEnd: (told: Told) => boolean): Promise<Told> {
    const url = `${this.installation.gateway.url}/agents/order/${name}`;
    return pollUntil(
      `${name} is done`,
      async () => {
        const response = await fetch(url, { signal: AbortSignal.timeout(10_000) });
        const told = (await response.json()) as Told;
        const times = (run: string): number => told.rows.filter((row) => row.run === run).length;
        const voted = times("asker") === 0 || times("voter") >= PEOPLE.length;
        const done = times("other") >= OTHERS && voted && isEnd(told);
        return done ? { done, value: told } : { done, saw: told };
      },
      { timeoutMs: DONE_TIMEOUT_MS, intervalMs: 100 },
    );
  }

  /** What the journal has of each step, by the name that the world has for it. */
  private async results(name: string): Promise<ReadonlyMap<string, ReadonlyArray<unknown>>> {
    const results = new Map<string, unknown[]>();
    const { journal } = this.installation.ports;
    for await (const { data } of journal.read(agentId("Order", name), { fromSeq: 1 as Sequence }))
      for (const { steps = [] } of decodeEvent(data).head.turns)
        for (const { key, result } of steps) {
          const isFetch = key.startsWith("1:POST ");
          const step = isFetch ? key.slice(key.lastIndexOf("/") + 1) : key.replace(/^undo 1:/, "undo-").replace(/^1:/, ""); // prettier-ignore
          const made = isFetch ? (result as { readonly body: string }).body : result;
          results.set(step, [...(results.get(step) ?? []), made]);
        }
    return results;
  }
}

const isAfter = ({ rows }: Told): boolean => rows.some(({ what }) => what.startsWith("after"));
const isOneOf = (all: ReadonlyArray<string>, one: string): boolean => all.includes(one);
const runOf = (point: Point, n: number): Run =>
  isOneOf(UNDO_POINTS, point)
    ? FAILING[n % FAILING.length]!
    : isOneOf(FIBER_POINTS, point)
      ? "ask"
      : RUNS[n % RUNS.length]!;

/** So many rounds, one after the other, with a kill at each point. What did not hold. */
export async function killSteps(
  times: number,
  points: ReadonlyArray<Point>,
  say: (line: string) => void,
): Promise<{ readonly kills: number; readonly deaths: number; readonly wrong: string[] }> {
  const rig = await KillRig.start();
  const wrong: string[] = [];
  try {
    for (let round = 1; round <= times; round++) {
      const found = await rig.round(round, points);
      wrong.push(...found);
      say(`round ${round}: ${rig.kills} kills, ${rig.deaths} deaths of hosts, ${found.length === 0 ? "all held" : found.join("; ")}`); // prettier-ignore
    }
    return { kills: rig.kills, deaths: rig.deaths, wrong };
  } finally {
    await rig.stop();
  }
}
