/**
 * Every subject and stream name of an installation, from its namespace (default `agents`) and the
 * number of its stream groups. `docs/internals/streams-and-formats.md` has the table; `Address` has
 * the token codec. No other file spells a subject.
 *
 * Stream groups: inbox, timers, journal and snapshots are one stream each, or several. Shard `s`
 * belongs to group `s mod groups`. The first group's streams have the plain names; those of group
 * `n` end in `_n`. With several groups, the subjects of journal and snapshots begin with the shard,
 * so that the groups' subjects are disjoint.
 */
import {
  agentId,
  decodeToken,
  encodeToken,
  shardOf,
  SHARDS_DEFAULT,
  type AgentId,
  type ShardId,
} from "./Address.ts";

export const NAMESPACE_DEFAULT = "agents";

/** The division of an installation, fixed and stored by its first provisioning. */
export interface StreamLayout {
  readonly shards: number;
  /** Divides `shards`. */
  readonly streamGroups: number;
}

/** The streams that exist once per group. */
export type GroupedStream = "inbox" | "timers" | "journal" | "snapshots";

/** First tokens, after the namespace, of each stream's subjects. */
const KINDS: Readonly<Record<GroupedStream, ReadonlyArray<string>>> = {
  inbox: ["inbox"],
  // A scheduled message can only be delivered to a subject of its own stream.
  timers: ["timer", "due"],
  journal: ["journal"],
  snapshots: ["snapshot"],
};

export class Subjects {
  /** Names of the first group's streams. */
  readonly stream: {
    readonly inbox: string;
    readonly timers: string;
    readonly journal: string;
    readonly snapshots: string;
    readonly dead: string;
    readonly bodies: string;
    readonly deliveries: string;
    readonly refusals: string;
  };
  readonly bucket: {
    /** Leases of shards and hosts. */
    readonly leases: string;
    /** Leases of gateways. */
    readonly gateways: string;
    readonly blobs: string;
  };

  /**
   * Throws `RangeError` for a namespace other than `[A-Za-z0-9_-]+`. Only names of streams,
   * journals and snapshots depend on the layout: the broker's adapter reads it from the
   * installation.
   */
  constructor(
    readonly namespace: string = NAMESPACE_DEFAULT,
    readonly layout: StreamLayout = { shards: SHARDS_DEFAULT, streamGroups: 1 },
  ) {
    if (!/^[A-Za-z0-9_-]+$/.test(namespace))
      throw new RangeError(
        `namespace "${namespace}": use letters, digits, "_" and "-" only (it starts every subject and stream name)`,
      );
    this.stream = {
      inbox: `${namespace}_INBOX`,
      timers: `${namespace}_TIMERS`,
      journal: `${namespace}_JOURNAL`,
      snapshots: `${namespace}_SNAPSHOTS`,
      dead: `${namespace}_DEAD`,
      bodies: `${namespace}_BODIES`,
      deliveries: `${namespace}_DELIVERIES`,
      refusals: `${namespace}_REFUSALS`,
    };
    this.bucket = {
      leases: `${namespace}_LEASES`,
      gateways: `${namespace}_GATEWAYS`,
      blobs: `${namespace}_BLOBS`,
    };
  }

  /** The names of the same installation with its actual layout. */
  withLayout(layout: StreamLayout): Subjects {
    return new Subjects(this.namespace, layout);
  }

  /** Name of a group's stream. */
  streamOf(which: GroupedStream, group: number): string {
    return group === 0 ? this.stream[which] : `${this.stream[which]}_${group}`;
  }
  /** The stream's name in each group. */
  streamsOf(which: GroupedStream): readonly string[] {
    return this.groups.map((group) => this.streamOf(which, group));
  }
  /** Numbers of the groups: 0, 1, … */
  get groups(): readonly number[] {
    return Array.from({ length: this.layout.streamGroups }, (_, group) => group);
  }
  groupOfShard(shard: ShardId): number {
    return shard % this.layout.streamGroups;
  }
  groupOf(id: AgentId): number {
    const { shards, streamGroups } = this.layout;
    return streamGroups === 1 ? 0 : this.groupOfShard(shardOf(id, shards));
  }
  /** Subjects of one group's stream. */
  subjectsOf(which: GroupedStream, group: number): readonly string[] {
    const starts = KINDS[which].map((kind) => `${this.namespace}.${kind}`);
    const { shards, streamGroups } = this.layout;
    if (streamGroups === 1) return starts.map((start) => `${start}.>`);
    const found: string[] = [];
    for (const start of starts)
      for (let shard = group; shard < shards; shard += streamGroups)
        found.push(`${start}.${shard}.>`);
    return found;
  }

  inbox(shard: ShardId, id: AgentId): string {
    return `${this.namespace}.inbox.${shard}.${this.tail(id)}`;
  }
  inboxOfShard(shard: ShardId): string {
    return `${this.namespace}.inbox.${shard}.>`;
  }
  timer(shard: ShardId, id: AgentId, timer: string): string {
    return `${this.namespace}.timer.${shard}.${this.tail(id)}.${encodeToken(timer)}`;
  }
  /** Subject of an agent's due timers, until they are in its inbox. */
  due(shard: ShardId, id: AgentId): string {
    return `${this.namespace}.due.${shard}.${this.tail(id)}`;
  }
  get dues(): string {
    return `${this.namespace}.due.>`;
  }
  /** The inbox subject for a message on a `due` subject. */
  inboxOfDue(due: string): string {
    return `${this.namespace}.inbox.${due.slice(this.dues.length - 1)}`;
  }
  /** All timers of an agent. */
  timers(shard: ShardId, id: AgentId): string {
    return `${this.namespace}.timer.${shard}.${this.tail(id)}.>`;
  }
  journal(id: AgentId): string {
    return `${this.namespace}.journal.${this.shardToken(id)}${this.tail(id)}`;
  }
  /** Journals of a class or of every class, of agents of a name or of every name. */
  journals(className?: string, name?: string): string {
    const start = `${this.namespace}.journal`;
    if (className === undefined && name === undefined) return `${start}.>`;
    const any = this.layout.streamGroups === 1 ? "" : "*.";
    const token = (text: string | undefined): string =>
      text === undefined ? "*" : encodeToken(text);
    return `${start}.${any}${token(className)}.${token(name)}`;
  }
  snapshot(id: AgentId): string {
    return `${this.namespace}.snapshot.${this.shardToken(id)}${this.tail(id)}`;
  }
  /** The agent's base (`core/journal/Snapshots`). No class is `+base`: tokens have no "+". */
  base(id: AgentId): string {
    return `${this.namespace}.snapshot.${this.shardToken(id)}+base.${this.tail(id)}`;
  }
  /** The agent's quarantine mark (`core/quarantine`). `+quarantine` is no class, as `+base`. */
  quarantine(id: AgentId): string {
    return `${this.namespace}.snapshot.${this.shardToken(id)}+quarantine.${this.tail(id)}`;
  }
  /** The marks of all agents. */
  get quarantines(): string {
    const any = this.layout.streamGroups === 1 ? "" : "*.";
    return `${this.namespace}.snapshot.${any}+quarantine.>`;
  }
  dead(id: AgentId): string {
    return `${this.namespace}.dead.${this.tail(id)}`;
  }
  /** Dead letters of a class, or of every agent. */
  deadOf(className?: string): string {
    return `${this.namespace}.dead.${className === undefined ? "" : encodeToken(className) + "."}>`;
  }
  /** Batches of delivery records. */
  delivery(kind: "taken" | "refused"): string {
    return `${this.namespace}.delivery.${kind}`;
  }
  /** Requests of gateways and hosts to the host that owns the agent. */
  call(shard: ShardId, id: AgentId): string {
    return `${this.namespace}.call.${shard}.${this.tail(id)}`;
  }
  callsOfShard(shard: ShardId): string {
    return `${this.namespace}.call.${shard}.>`;
  }
  /** Whether the subject, or pattern, is of calls. */
  isCall(subject: string): boolean {
    return subject.startsWith(`${this.namespace}.call.`);
  }
  /** As `call`, for what gateways may not ask (`isControl`): permissions tell the two apart. */
  control(shard: ShardId, id: AgentId): string {
    return `${this.namespace}.control.${shard}.${this.tail(id)}`;
  }
  controlsOfShard(shard: ShardId): string {
    return `${this.namespace}.control.${shard}.>`;
  }
  isControl(subject: string): boolean {
    return subject.startsWith(`${this.namespace}.control.`);
  }
  /** Whether only hosts can receive what is published on the subject. */
  isForHosts(subject: string): boolean {
    return this.isCall(subject) || this.isControl(subject);
  }
  /**
   * Whether a process may receive answers on the subject. `_INBOX` is where clients do that were
   * not given an address; no user of `deploy/nats` may publish there.
   */
  isAnswerAddress(subject: string): boolean {
    return subject.startsWith(`${this.namespace}.answer.`) || subject.startsWith("_INBOX.");
  }
  /** Calls of the targets that a process has lent. */
  process(processId: string): string {
    return `${this.namespace}.process.${encodeToken(processId)}`;
  }
  /** Committed states, and requests for the current one. */
  state(id: AgentId): string {
    return `${this.namespace}.state.${this.tail(id)}`;
  }
  /** Notifies every host that the agent is erased. */
  erasure(id: AgentId): string {
    return `${this.namespace}.erase.${this.tail(id)}`;
  }
  get erasures(): string {
    return `${this.namespace}.erase.*.*`;
  }
  /** Frames for the sockets of one gateway; `topic` is `frame` or `reply`. */
  gateway(gateway: string, topic: "frame" | "reply" | "census"): string {
    return `${this.namespace}.gateway.${encodeToken(gateway)}.${topic}`;
  }
  /** Whether only a gateway receives what is published on the subject. */
  isOfGateway(subject: string): boolean {
    return subject.startsWith(`${this.namespace}.gateway.`);
  }
  /** Whether a gateway awaits answers on it: hosts answer inputs on such subjects only. */
  isGatewayReply(subject: string): boolean {
    const [namespace, kind, gateway, topic, ...more] = subject.split(".");
    const isReply = namespace === this.namespace && kind === "gateway" && topic === "reply";
    return isReply && gateway !== "" && more.length === 0;
  }

  /** The address in the last two tokens of an inbox, call, journal, snapshot, dead or state one. */
  addressOf(subject: string): AgentId {
    const last = subject.lastIndexOf(".");
    const before = subject.lastIndexOf(".", last - 1);
    return agentId(
      decodeToken(subject.slice(before + 1, last)),
      decodeToken(subject.slice(last + 1)),
    );
  }

  /** Empty with one group: such installations can be older than groups. */
  private shardToken(id: AgentId): string {
    const { shards, streamGroups } = this.layout;
    return streamGroups === 1 ? "" : `${shardOf(id, shards)}.`;
  }

  private tail(id: AgentId): string {
    return `${encodeToken(id.class)}.${encodeToken(id.name)}`;
  }
}
