/** Lives a random program on a real agent's place, and keeps what it was at each commit. */
import { Effect, Layer } from "effect";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { Agent } from "../../core/agent/Agent.ts";
import type { AgentContext } from "../../core/agent/AgentContext.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { runtimeOf } from "../../core/agent/RuntimeContext.ts";
import { SILENT } from "../../core/telemetry/observability.ts";
import type { AgentDatabase } from "../../core/database/Databases.ts";
import { Log } from "../../core/telemetry/Log.ts";
import type { ActiveAgent } from "../../core/runtime/ActiveAgent.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { layer as cronLayer } from "../../services/cronParser/CronParser.ts";
import { AgentSlot } from "../../services/host/AgentSlot.ts";
import { hostServices, type HostServices } from "../../services/host/HostServices.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { memoryLayer } from "../../services/memory/memoryLayer.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { asyncAmbientLayer } from "../../services/node/AsyncAmbient.ts";
import { hashImage } from "../kit/pages.ts";
import { sqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { run } from "../sqlite/Workload.ts";
import { collectingLog } from "../kit/system.ts";
import type { Action, Event, StateEdit } from "./Program.ts";
import { hostMetrics } from "../kit/hostMetrics.ts";

export const ID = agentId("Subject", "one");

/** An agent at one journal sequence. */
export interface Moment {
  readonly seq: number;
  /** JSON text; undefined: never set, or unset. */
  readonly state: string | undefined;
  readonly hash: string;
  readonly bytes: number;
}

export const momentOf = (
  seq: number,
  state: string | undefined,
  database: Pick<AgentDatabase, "image">,
): Moment => {
  const image = database.image();
  return { seq, state, hash: hashImage(image), bytes: image.length };
};

/** An append is on its way this long, so that other things happen meanwhile. */
const APPEND_MS = 4;
/** Longer than most turns of a program. */
const QUIET_MS = 200;
/** Longer than every wait, gather and backoff of a program. */
const REST_MS = 120_000;

export class ReplayRig {
  readonly time: VirtualTime;
  readonly broker: MemoryBroker;
  /** The live agent after each of its commits, by sequence. */
  readonly moments = new Map<number, Moment>();
  readonly counts = { refused: 0, hibernations: 0, cached: 0, moves: 0, snapshots: 0, restored: 0 };
  /** The agent in memory. */
  live: ActiveAgent | undefined;
  private services!: HostServices;
  private slot!: AgentSlot;
  private lost!: AbortController;
  private epoch = 0;
  private inputs = 0;
  private readonly stored = new Map<number, { data: Uint8Array; dueMs: number }>();
  readonly programs = new Map<string, { actions: ReadonlyArray<Action>; fails: boolean }>();

  private constructor(seed: number) {
    this.time = new VirtualTime({ seed });
    this.broker = new MemoryBroker({ time: this.time });
    this.broker.intercept = ({ kind }) =>
      kind === "append" ? new Promise((resolve) => this.time.after(APPEND_MS, resolve)) : undefined;
  }

  /** `use` gets a rig whose databases are open while it runs. */
  static async with<A>(
    options: { readonly folder: string; readonly seed: number },
    use: (rig: ReplayRig) => Promise<A>,
  ): Promise<A> {
    const rig = new ReplayRig(options.seed);
    const layer = Layer.mergeAll(
      memoryLayer(rig.broker.connect("host")),
      sqliteDatabases({ folder: options.folder, residentBytesMax: 32 * 1024 }),
      asyncAmbientLayer,
      cronLayer,
      Layer.succeed(Log, collectingLog()),
    );
    return Effect.runPromise(
      Effect.gen(function* () {
        rig.services = rig.watched(
          yield* hostServices({
            config: {
              hostId: "host",
              subjects: rig.broker.subjects,
              shards: rig.broker.shards,
              drainTimeoutMs: 1000,
            },
            module: () => ({
              agents: new Map([[ID.class, subject(rig) as unknown as AgentClassType]]),
              env: {},
            }),
            observability: SILENT,
            metrics: hostMetrics({
              commit: () => rig.committed(),
              refusedAppend: () => rig.counts.refused++,
            }),
          }),
        );
        rig.claim();
        return yield* Effect.promise(() => use(rig));
      }).pipe(Effect.provide(layer), Effect.scoped),
    );
  }

  /** One event of a program. Never rejects: what fails in the agent is the agent's business. */
  async happen(event: Event): Promise<void> {
    switch (event.on) {
      case "input":
        return this.input(event.actions, event.fails);
      case "call":
        return this.call(event.actions);
      case "time":
        return this.time.advance(event.ms);
      case "snapshot":
        return this.snapshot();
      case "hibernate":
        await this.time.advance(QUIET_MS);
        // An agent whose input is put off or in mid-turn stays.
        if (this.slot.hibernate(Infinity)) this.counts.hibernations++;
        return;
      case "move":
        this.counts.moves++;
        this.lost.abort();
        this.slot.discard();
        this.claim();
        return this.redeliver();
      case "conflict":
        return this.intrude();
      case "restore":
        return this.restore(event.nth);
    }
  }

  /** Lets everything come to its end: retries, waits, commits. */
  async rest(): Promise<void> {
    for (let n = 0; n < 20 && this.stored.size > 0; n++) {
      await this.time.advance(REST_MS / 20);
      this.redeliver();
    }
    await this.time.advance(REST_MS);
    // One without a journal looks for a late event of an older owner when it is asked for
    // something.
    if (this.live?.image.seq === 0) await this.call([]);
    await this.time.advance(REST_MS);
  }

  /** Inputs that are not done. */
  get left(): number {
    return this.stored.size;
  }

  private claim(): void {
    this.epoch++;
    this.lost = new AbortController();
    this.slot = new AgentSlot(ID, {
      services: this.services,
      epoch: this.epoch as Epoch,
      signal: this.lost.signal,
      isStillOurs: () => true,
      quarantine: () => undefined,
    });
  }

  private async input(actions: ReadonlyArray<Action>, fails: boolean): Promise<void> {
    const seq = ++this.inputs;
    this.programs.set(`${seq}`, { actions, fails });
    const head = { key: `key-${seq}`, kind: "webhook", time: this.time.nowMs() } as const;
    const data = encodeEnvelope(
      { ...head, method: "POST", url: "http://agent/" },
      new TextEncoder().encode(`${seq}`),
    );
    this.stored.set(seq, { data, dueMs: 0 });
    this.deliver(seq, data);
    await this.time.settle();
  }

  private deliver(seq: number, data: Uint8Array): void {
    this.slot.deliver({
      id: ID,
      seq: seq as Sequence,
      deliveries: 1,
      data,
      ack: () => void this.stored.delete(seq),
      nak: (delayMs) => {
        const kept = this.stored.get(seq);
        if (kept !== undefined) kept.dueMs = this.time.monotonicMs() + delayMs;
        this.time.after(delayMs, () => this.stored.has(seq) && this.deliver(seq, data));
      },
    });
  }

  /** As the broker does for a new consumer: everything that is not acked. */
  private redeliver(): void {
    for (const [seq, { data }] of this.stored) this.deliver(seq, data);
  }

  private async call(actions: ReadonlyArray<Action>): Promise<void> {
    const id = `call-${this.programs.size}`;
    this.programs.set(id, { actions, fails: false });
    const body = new TextEncoder().encode(id);
    this.slot
      .call({ kind: "fetch", id, method: "POST", url: "http://agent/", headers: [] }, body)
      // Its agent was discarded meanwhile: a caller would ask again.
      .catch(() => undefined);
    await this.time.settle();
  }

  private async snapshot(): Promise<void> {
    const { live } = this;
    if (live === undefined || live.discarded || live.image.seq === 0) return;
    this.counts.snapshots++;
    await this.services.snapshots.put(ID, live.image.encode(live.database.image()));
  }

  private async intrude(): Promise<void> {
    const last = this.broker.journal.last(ID)?.seq;
    if (last === undefined) return;
    const head = {
      id: this.time.id(),
      agent: [ID.class, ID.name],
      kind: "claimed",
      host: "host",
      epoch: this.epoch,
      time: this.time.nowMs(),
      turns: [],
    } as const;
    this.broker.journal.append(ID, encodeEvent(head), last);
  }

  /** It goes on while other things happen; what it put back is compared with the moment itself. */
  private async restore(nth: number): Promise<void> {
    const lived = [...this.moments.values()];
    const moment = lived[nth % Math.max(lived.length, 1)];
    if (moment === undefined) return;
    const { journal, databases, snapshots } = this.services;
    const sources = { journal, databases, snapshots };
    const { image, database } = await rebuildAgent(ID, { ...sources, atSeq: moment.seq });
    const snapshot = image.encode(database.image());
    database.close();
    const key = `restore:${this.programs.size}:${this.time.id()}`;
    this.slot
      .call({ kind: "restore", key, life: 0 }, snapshot)
      .then(({ reply }) => {
        if (reply.kind !== "result") return;
        const seq = Number(reply.value);
        this.moments.set(seq, { ...moment, seq });
        this.counts.restored++;
      })
      // Its host lost the shard meanwhile, or another restore is under way.
      .catch(() => undefined);
    await this.time.settle();
  }

  private committed(): void {
    const { live } = this;
    if (live === undefined) return;
    this.moments.set(live.image.seq, momentOf(live.image.seq, live.image.state, live.database));
  }

  private watched(services: HostServices): HostServices {
    const { inbox, databases } = services;
    return {
      ...services,
      inbox: { ...inbox, get: async (_id, seq) => this.stored.get(seq)?.data },
      databases: {
        ...databases,
        open: (id) => {
          const opened = databases.open(id);
          if (opened.cached !== undefined) this.counts.cached++;
          return opened;
        },
      },
    };
  }
}

/** An agent that runs its inputs' programs. */
const subject = (rig: ReplayRig) =>
  class Subject extends Agent<unknown> {
    static override options = { retry: { maxAttempts: 3, baseDelayMs: 5, maxDelayMs: 20 } };
    readonly #runtime: ActiveAgent;

    constructor(ctx: AgentContext, env: unknown) {
      super(ctx, env);
      this.#runtime = runtimeOf(ctx) as ActiveAgent;
      rig.live = this.#runtime;
    }

    override async onRequest(request: Request): Promise<Response> {
      const { actions, fails } = rig.programs.get(await request.text())!;
      for (const action of actions) await this.#act(action);
      if (fails) throw new Error("as the program says");
      return new Response("OK");
    }
    override onError(error: unknown): void {
      throw error;
    }

    async #act(action: Action): Promise<void> {
      const runtime = this.#runtime;
      // The workload's statements, as the agent's own: attributed to this turn.
      const database = { query: runtime.query.bind(runtime) } as unknown as AgentDatabase;
      switch (action.act) {
        case "sql":
          return run(database, action.statement);
        case "transaction":
          try {
            this.ctx.storage.transactionSync(() => {
              for (const statement of action.statements) run(database, statement);
              if (action.throws) throw new RolledBack();
            });
          } catch (error) {
            // A statement may have ended the transaction itself (INSERT OR ROLLBACK).
            if (!(error instanceof RolledBack || (error as Error).name === "SqliteError"))
              throw error;
          }
          return;
        case "setState":
          return this.setState(edited(this.state, action.state));
        case "wait":
          return new Promise((resolve) => rig.time.after(action.ms, resolve));
        case "sync":
          return this.ctx.storage.sync();
      }
    }
  };

class RolledBack extends Error {}

function edited(state: unknown, edit: StateEdit): unknown {
  const text = (state as { text?: string } | null | undefined)?.text ?? "";
  switch (edit.to) {
    case "value":
      return edit.value;
    case "unset":
      return undefined;
    case "grow":
      return { text: edit.letter.repeat(edit.units), n: 1 };
    case "splice": {
      const at = Math.min(edit.at, text.length);
      return { text: text.slice(0, at) + edit.text + text.slice(at + edit.remove), n: 2 };
    }
  }
}
