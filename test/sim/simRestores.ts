/**
 * `agents restore <class> <name> --at` in a simulation: tapes, agents that write down what they do,
 * and an operator who puts them back to earlier points by the command itself, while orders come,
 * turns interleave and hosts die. Half of the restores are undone by another one.
 */
import { Agent } from "../../core/agent/Agent.ts";
import { CallClient } from "../../core/call/CallClient.ts";
import { agentId, shardOf } from "../../schemas/Address.ts";
import { putBack } from "../../services/cli/agents/putBack.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { makeMemoryInbox } from "../../services/memory/MemoryInbox.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { asyncAmbient } from "../../services/node/AsyncAmbient.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import { OPTIONS, type Order, type SubjectEnv } from "./subjects.ts";

/** Which runs have restores: by the seed, so that known runs stay as they are. */
const hasRestores = (seed: number): boolean => seed % 20 === 10;
/** The share of the steps of such a run. */
const ORDERS = 0.5;
const RESTORES = 0.3;
const UNDOES = 0.5;
/** Share of restores whose host dies: before the event is stored, or before it is confirmed. */
const KILLS = 0.3;
const KILL_MS_MAX = 40;
const TAPES = ["t", "u"] as const;
const MS_MAX = 1_500;
/** What an order is, by its number. */
const OPS = ["note", "note", "wait", "wait", "plan", "plan", "cancel"] as const;
/** A schedule comes within a run. */
const SECONDS_MAX = 4;
/** Several at once interleave. */
const TOGETHER_MAX = 3;

interface TapeState {
  readonly count: number;
}

/** Each input that is done leaves one note and one count. */
export class Tape extends Agent<SubjectEnv, TapeState> {
  static override options = OPTIONS;
  override initialState: TapeState = { count: 0 };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS notes (n INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT)`;
  }

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    const { ms = 0 } = (await request.json()) as Order;
    const op = OPS[ms % OPS.length]!;
    this.#ran(op);
    if (op === "wait") await this.env.sim.sleep(ms);
    if (op === "plan") await this.schedule(1 + (ms % SECONDS_MAX), "tick", {});
    if (op === "cancel")
      for (const { id } of await this.listSchedules()) await this.cancelSchedule(id);
    this.#note();
    return new Response("applied");
  }

  tick(): void {
    this.#ran("tick");
    this.#note();
  }

  override onError(error: unknown): void {
    throw error;
  }

  #note(): void {
    this.setState({ count: this.state.count + 1 });
    this.sql`INSERT INTO notes (key) VALUES (${asyncAmbient.current()!.cause.id ?? ""})`;
  }

  #ran(op: string): void {
    const { kind, id: key = "", attempt = 1 } = asyncAmbient.current()!.cause;
    this.env.sim.ran({ agent: this.name, key, kind, attempt, op });
  }
}

/** What happens to tapes in one run, with randomness of its own. */
export class Restores {
  private readonly installation: Installation;
  private readonly send: (className: string, order: Order) => void;
  private readonly random: Random;
  private readonly isOn: boolean;
  private readonly ports: RestorePorts;
  private orders = 0;
  /** One at a time of each. */
  private readonly restoring = new Set<string>();

  constructor(installation: Installation, send: Restores["send"]) {
    this.installation = installation;
    this.send = send;
    this.random = new Random(installation.seed, "restores");
    this.isOn = hasRestores(installation.seed);
    this.ports = portsOf(installation);
  }

  act(): void {
    const { random } = this;
    if (!this.isOn) return;
    const agent = random.pick(TAPES);
    if (random.chance(ORDERS))
      for (let n = random.int(1, TOGETHER_MAX); n > 0; n--) {
        const id = `tape-${++this.orders}`;
        this.send("Tape", { id, agent, do: "tape", ms: random.int(1, MS_MAX) });
      }
    if (random.chance(RESTORES)) void this.restore(agent, random.next());
  }

  get isDone(): boolean {
    return this.restoring.size === 0;
  }

  /** Puts the agent back to the event that lies there in its journal, of 0 to 1. */
  private async restore(name: string, where: number): Promise<void> {
    const { broker } = this.installation;
    const seqs = broker.journal.eventsOf(agentId("Tape", name)).map(({ seq }) => seq);
    const at = seqs[Math.floor(where * (seqs.length - 1))];
    if (this.restoring.has(name) || at === undefined || seqs.length < 2) return;
    this.restoring.add(name);
    const restored = await this.run(name, at);
    if (restored !== undefined && this.random.chance(UNDOES)) await this.run(name, restored - 1);
    this.restoring.delete(name);
  }

  private killLater(name: string, ms: number): void {
    const { installation } = this;
    const shard = shardOf(agentId("Tape", name), installation.broker.shards);
    installation.time.after(ms, () => {
      const host = installation.hostsAlive.find((each) => each.shards().includes(shard));
      if (host === undefined || installation.weather.calm) return;
      installation.crash(host.process);
      installation.weather.bit("killed in a restore");
    });
  }

  /** Returns the sequence of the event that the command names, and notes it. Never rejects. */
  private async run(name: string, at: number): Promise<number | undefined> {
    const { weather, time, observed } = this.installation;
    const { databases, close } = await openSqliteDatabases({ folder: undefined });
    const ports = { ...this.ports, databases } as unknown as ReadPorts;
    const out: string[] = [];
    const terminal = {
      out: (line: string) => void out.push(line),
      err: () => undefined,
      interactive: false,
      env: {},
      cwd: "/",
    };
    const what = { className: "Tape", name, at: { atSeq: at }, yes: true, json: true };
    if (this.random.chance(KILLS)) this.killLater(name, this.random.int(0, KILL_MS_MAX));
    let failure = "";
    try {
      await putBack(ports, terminal, time, what);
    } catch (error) {
      failure = (error as Error).message;
    } finally {
      close();
    }
    weather.trace.add(`operator puts ${name} back to ${at}: ${out.join()} ${failure}`);
    weather.bit(out.length > 0 ? "restored" : "restore failed");
    if (out.length === 0) return undefined;
    const { restored, at: point } = JSON.parse(out[0]!) as {
      restored: number;
      at: { seq: number };
    };
    observed.restores.push({ agent: name, at: point.seq, restored });
    return restored;
  }
}

/** What the command uses of its ports, but for databases. */
type RestorePorts = Pick<ReadPorts, "journal" | "snapshots" | "calls" | "inbox">;

function portsOf({ broker }: Installation): RestorePorts {
  const wire = broker.connect("restorer");
  const { time, subjects, shards } = broker;
  const bus = makeMemoryBus(wire);
  return {
    journal: makeMemoryJournal(wire),
    snapshots: makeMemorySnapshots(wire),
    inbox: makeMemoryInbox(wire),
    calls: new CallClient({ bus, blobs: makeMemoryBlobs(wire), time, subjects, shards }),
  };
}
