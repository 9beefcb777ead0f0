/** One agent's place on a host, where the test decides of each append and sees all that leaves. */
import { Effect, Layer } from "effect";
import { agentId, type Epoch, type Sequence } from "../../schemas/Address.ts";
import type { InputAnswer } from "../../schemas/bus/CallReply.ts";
import type { GatewayMessage } from "../../schemas/bus/GatewayMessage.ts";
import { decodeMessage } from "../../schemas/bus/message.ts";
import { encodeEnvelope } from "../../schemas/InboxEnvelope.ts";
import { decodeEvent, encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { SILENT } from "../../core/telemetry/observability.ts";
import type { AppendResult, JournalShape } from "../../core/journal/Journal.ts";
import { Log } from "../../core/telemetry/Log.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { AgentSlot } from "../../services/host/AgentSlot.ts";
import { hostServices, type HostServices } from "../../services/host/HostServices.ts";
import { layer as cronLayer } from "../../services/cronParser/CronParser.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { memoryLayer } from "../../services/memory/memoryLayer.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { asyncAmbientLayer } from "../../services/node/AsyncAmbient.ts";
import { sqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import { collectingLog } from "../kit/system.ts";
import { hostMetrics } from "../kit/hostMetrics.ts";

export const ID = agentId("Subject", "one");

/** An append that waits for the test's word. */
export interface HeldAppend {
  readonly head: JournalHead;
  /** Passes it to the journal, which stores or refuses it. */
  readonly pass: () => Promise<AppendResult>;
}

export class CommitRig {
  readonly time = new VirtualTime();
  readonly broker = new MemoryBroker({ time: this.time });
  /** What left, in order: `answer 1 200`, `frame hello`, `state {…}`, `ack 1`, `nak 1`, … */
  readonly left: string[] = [];
  readonly held: HeldAppend[] = [];
  /** Appends wait in `held` while this is set. */
  holding = false;
  /** Appends end at once, and nothing is stored: the login may not write journals. */
  denied = false;
  /** A dead letter is stored once this resolves. */
  mayBury: Promise<void> = Promise.resolve();
  refused = 0;
  /** What the shard says of its lease. */
  isStillOurs: true | Promise<boolean> = true;
  /** Envelopes by inbox sequence. */
  private readonly stored = new Map<number, Uint8Array>();
  /** Reads an input as the inbox does. */
  read = async (seq: Sequence): Promise<Uint8Array | undefined> => this.stored.get(seq);
  slot!: AgentSlot;
  private lost!: AbortController;
  private services!: HostServices;
  private readonly agentClass: AgentClassType;

  private constructor(agentClass: AgentClassType) {
    this.agentClass = agentClass;
  }

  static async make(agentClass: AgentClassType): Promise<CommitRig> {
    const rig = new CommitRig(agentClass);
    const layer = Layer.mergeAll(
      memoryLayer(rig.broker.connect("host")),
      sqliteDatabases({ folder: undefined }),
      asyncAmbientLayer,
      cronLayer,
      Layer.succeed(Log, collectingLog()),
    );
    const { subjects, shards } = rig.broker;
    const made = await Effect.runPromise(
      hostServices({
        config: { hostId: "host", subjects, shards, drainTimeoutMs: 1000 },
        module: () => ({ agents: new Map([[ID.class, rig.agentClass]]), env: {} }),
        observability: SILENT,
        metrics: hostMetrics({ refusedAppend: () => rig.refused++ }),
      }).pipe(Effect.provide(layer), Effect.scoped),
    );
    rig.services = { ...made, ...rig.watched(made) };
    rig.claim(1);
    return rig;
  }

  /** A new owner, with nothing in memory. */
  claim(epoch: number): void {
    this.lost = new AbortController();
    const { services, lost } = this;
    this.slot = new AgentSlot(ID, {
      services,
      epoch: epoch as Epoch,
      signal: lost.signal,
      isStillOurs: () => this.isStillOurs,
      quarantine: () => undefined,
    });
  }

  /** The shard is gone: its lease ran out, or the process died. */
  lose(): void {
    this.lost.abort();
    this.slot.discard();
  }

  /** Delivers the webhook `body` under `key`, or a schedule's trigger; again with its `seq`. */
  async deliver(
    seq: number,
    key = `key-${seq}`,
    body = key,
    kind: "webhook" | "schedule" = "webhook",
  ): Promise<void> {
    const head = {
      key,
      kind,
      time: this.time.nowMs(),
      method: "POST",
      url: "http://agent/",
      reply: { subject: "agents.gateway.rig.reply", id: `${seq}` },
    } as const;
    const data = this.stored.get(seq) ?? encodeEnvelope(head, new TextEncoder().encode(body));
    this.stored.set(seq, data);
    this.slot.deliver({
      id: ID,
      seq: seq as Sequence,
      deliveries: 1,
      data,
      ack: () => void this.left.push(`ack ${seq}`),
      nak: () => void this.left.push(`nak ${seq}`),
    });
    await this.settled();
  }

  /** Connects a client, so that frames have somewhere to go. */
  async connect(): Promise<void> {
    const socket = { gateway: "gw", sid: "s", id: "client", url: "http://agent/", headers: [] };
    await this.slot.call({ kind: "connect", socket }, new Uint8Array(0));
    this.left.length = 0;
  }

  /** Everything has happened that waits for no timer and no append. */
  async settled(): Promise<void> {
    // SQLite's first use and a response's body take several turns of the loop.
    for (let n = 0; n < 10; n++) await this.time.settle();
  }

  /** Lets virtual time pass. */
  async pass(ms: number): Promise<void> {
    await this.time.advance(ms);
    await this.settled();
  }

  /** Events of the journal. */
  async events(): Promise<JournalHead[]> {
    return this.broker.journal.eventsOf(ID).map(({ data }) => decodeEvent(data).head);
  }

  /** Another host writes to the agent's journal. */
  intrude(epoch: number): void {
    this.append({
      id: this.time.id(),
      agent: [ID.class, ID.name],
      kind: "claimed",
      host: "another",
      epoch,
      time: this.time.nowMs(),
      turns: [],
    });
  }

  /** Stores a held append without deltas, of which its host hears nothing. */
  store({ head }: HeldAppend): void {
    this.append(head);
  }

  private append(head: JournalHead): void {
    const last = this.broker.journal.last(ID)?.seq ?? (0 as Sequence);
    this.broker.journal.append(ID, encodeEvent(head), last);
  }

  /** What the agent answers to a GET. */
  async get(): Promise<unknown> {
    const { reply, body } = await this.slot.call(
      { kind: "fetch", id: "get", method: "GET", url: "http://agent/", headers: [] },
      new Uint8Array(0),
    );
    if (reply.kind !== "response") throw new Error(`answered ${reply.kind}`);
    return JSON.parse(typeof body === "string" ? body : new TextDecoder().decode(body));
  }

  private watched({ journal, bus, inbox, deadLetters }: HostServices) {
    return {
      inbox: { ...inbox, get: (_id: unknown, seq: Sequence) => this.read(seq) },
      journal: {
        ...journal,
        append: async (id, data, options) => {
          if (this.denied) return { _tag: "Unknown", message: "the login may not" };
          if (!this.holding) return journal.append(id, data, options);
          return new Promise<AppendResult>((resolve) => {
            this.held.push({
              head: decodeEvent(data).head,
              pass: async () => {
                const result = await journal.append(id, data, options);
                resolve(result);
                await this.settled();
                return result;
              },
            });
          });
        },
      } satisfies JournalShape,
      bus: {
        ...bus,
        publish: (subject: string, data: Uint8Array) => void this.left.push(tell(subject, data)),
      },
      deadLetters: {
        ...deadLetters,
        put: async (...args: Parameters<typeof deadLetters.put>) => {
          await this.mayBury;
          await deadLetters.put(...args);
          this.left.push("buried");
        },
      },
    };
  }
}

/** One message on the bus in a few words. */
function tell(subject: string, data: Uint8Array): string {
  if (subject === "agents.gateway.rig.reply") {
    const { head } = decodeMessage<InputAnswer>(data);
    return `answer ${head.id} ${head.status}${head.duplicateOf === undefined ? "" : " duplicate"}`;
  }
  if (subject.includes(".state.")) {
    const { state } = JSON.parse(new TextDecoder().decode(data)) as { state: unknown };
    return `state ${JSON.stringify(state)}`;
  }
  const { head, body } = decodeMessage<GatewayMessage>(data);
  return `${head.op} ${new TextDecoder().decode(body)}`;
}
