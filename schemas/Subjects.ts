/**
 * Every subject and stream name of an installation, from its namespace (default `agents`) and the number of its
 * stream groups. The table is in `docs/internals/streams-and-formats.md`; the token codec is `Address`. Nothing else in the project
 * spells a subject.
 *
 * Stream groups: inbox, timers, journal and snapshots are one stream each, or several, shard by shard: shard `s` lies in
 * group `s mod groups`. The first group's streams have the plain names, those of group `n` end in `_n`. With several,
 * the subjects of journal and snapshots begin with the shard, so that the groups' subjects are disjoint.
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

/** How an installation is divided; written down by its first provisioning, fixed since. */
export interface StreamLayout {
  readonly shards: number;
  /** Divides `shards`. */
  readonly streamGroups: number;
}

/** The streams that exist once in each group. */
export type GroupedStream = "inbox" | "timers" | "journal" | "snapshots";

/** First tokens, after the namespace, of the subjects that each stream takes. */
const KINDS: Readonly<Record<GroupedStream, ReadonlyArray<string>>> = {
  inbox: ["inbox"],
  // A scheduled message can only be sent on to a subject of its own stream.
  timers: ["timer", "due"],
  journal: ["journal"],
  snapshots: ["snapshot"],
};

export class Subjects {
  readonly namespace: string;
  readonly layout: StreamLayout;
  /** The first group's, and the only ones where there is one group. */
  readonly stream: {
    readonly inbox: string;
    readonly timers: string;
    readonly journal: string;
    readonly snapshots: string;
    readonly dead: string;
    readonly bodies: string;
  };
  readonly bucket: {
    /** Leases of shards and hosts. */
    readonly leases: string;
    /** Leases of gateways. */
    readonly gateways: string;
    readonly blobs: string;
  };

  /**
   * `namespace` is `[A-Za-z0-9_-]+`; anything else is a `RangeError`. The layout matters to those who name
   * streams, journals or snapshots: the broker's adapter, which reads it from the installation.
   */
  constructor(
    namespace: string = NAMESPACE_DEFAULT,
    layout: StreamLayout = { shards: SHARDS_DEFAULT, streamGroups: 1 },
  ) {
    if (!/^[A-Za-z0-9_-]+$/.test(namespace))
      throw new RangeError(
        `namespace "${namespace}": use letters, digits, "_" and "-" only (it starts every subject and stream name)`,
      );
    this.namespace = namespace;
    this.layout = layout;
    this.stream = {
      inbox: `${namespace}_INBOX`,
      timers: `${namespace}_TIMERS`,
      journal: `${namespace}_JOURNAL`,
      snapshots: `${namespace}_SNAPSHOTS`,
      dead: `${namespace}_DEAD`,
      bodies: `${namespace}_BODIES`,
    };
    this.bucket = {
      leases: `${namespace}_LEASES`,
      gateways: `${namespace}_GATEWAYS`,
      blobs: `${namespace}_BLOBS`,
    };
  }

  /** The same installation's, once its layout is known. */
  withLayout(layout: StreamLayout): Subjects {
    return new Subjects(this.namespace, layout);
  }

  /** Name of a group's stream. */
  streamOf(which: GroupedStream, group: number): string {
    return group === 0 ? this.stream[which] : `${this.stream[which]}_${group}`;
  }
  /** One name a group. */
  streamsOf(which: GroupedStream): readonly string[] {
    return this.groups.map((group) => this.streamOf(which, group));
  }
  /** 0, 1, … */
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
  /** What the streams of one group take. */
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
  /** Where an agent's timers go when they are due, until they are in its inbox. */
  due(shard: ShardId, id: AgentId): string {
    return `${this.namespace}.due.${shard}.${this.tail(id)}`;
  }
  get dues(): string {
    return `${this.namespace}.due.>`;
  }
  /** The inbox subject that a message on a `due` subject is for. */
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
  /** Journals of a class, or of every agent. */
  journals(className?: string): string {
    const start = `${this.namespace}.journal`;
    if (className === undefined) return `${start}.>`;
    const any = this.layout.streamGroups === 1 ? "" : "*.";
    return `${start}.${any}${encodeToken(className)}.>`;
  }
  snapshot(id: AgentId): string {
    return `${this.namespace}.snapshot.${this.shardToken(id)}${this.tail(id)}`;
  }
  dead(id: AgentId): string {
    return `${this.namespace}.dead.${this.tail(id)}`;
  }
  /** Dead letters of a class, or of every agent. */
  deadOf(className?: string): string {
    return `${this.namespace}.dead.${className === undefined ? "" : encodeToken(className) + "."}>`;
  }
  /** Request and reply between gateways (or hosts) and the host that owns the agent. */
  call(shard: ShardId, id: AgentId): string {
    return `${this.namespace}.call.${shard}.${this.tail(id)}`;
  }
  /** Whether only hosts can receive what is published on the subject, as on every call's. */
  isForHosts(subject: string): boolean {
    return subject.startsWith(`${this.namespace}.call.`);
  }
  callsOfShard(shard: ShardId): string {
    return `${this.namespace}.call.${shard}.>`;
  }
  /** Committed states, and the request for the current one. */
  state(id: AgentId): string {
    return `${this.namespace}.state.${this.tail(id)}`;
  }
  /** Tells every host that the agent is erased. */
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

  /** The address in the last two tokens of an inbox, call, journal, snapshot, dead or state subject. */
  addressOf(subject: string): AgentId {
    const last = subject.lastIndexOf(".");
    const before = subject.lastIndexOf(".", last - 1);
    return agentId(
      decodeToken(subject.slice(before + 1, last)),
      decodeToken(subject.slice(last + 1)),
    );
  }

  /** Installations of one group have none: they are older than groups. */
  private shardToken(id: AgentId): string {
    const { shards, streamGroups } = this.layout;
    return streamGroups === 1 ? "" : `${shardOf(id, shards)}.`;
  }

  private tail(id: AgentId): string {
    return `${encodeToken(id.class)}.${encodeToken(id.name)}`;
  }
}
