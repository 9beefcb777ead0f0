/**
 * Every subject and stream name of an installation, from its namespace (default `agents`).
 * The table is in `docs/architecture.md`; the token codec is `Address`. Nothing else in the project
 * spells a subject.
 */
import { agentId, decodeToken, encodeToken, type AgentId, type ShardId } from "./Address.ts";

export const NAMESPACE_DEFAULT = "agents";

export class Subjects {
  readonly namespace: string;
  readonly stream: {
    readonly inbox: string;
    readonly journal: string;
    readonly snapshots: string;
    readonly dead: string;
  };
  readonly bucket: { readonly leases: string; readonly blobs: string };

  /** `namespace` is `[A-Za-z0-9_-]+`; anything else is a `RangeError`. */
  constructor(namespace: string = NAMESPACE_DEFAULT) {
    if (!/^[A-Za-z0-9_-]+$/.test(namespace))
      throw new RangeError(
        `namespace "${namespace}": use letters, digits, "_" and "-" only (it starts every subject and stream name)`,
      );
    this.namespace = namespace;
    this.stream = {
      inbox: `${namespace}_INBOX`,
      journal: `${namespace}_JOURNAL`,
      snapshots: `${namespace}_SNAPSHOTS`,
      dead: `${namespace}_DEAD`,
    };
    this.bucket = { leases: `${namespace}_LEASES`, blobs: `${namespace}_BLOBS` };
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
  journal(id: AgentId): string {
    return `${this.namespace}.journal.${this.tail(id)}`;
  }
  /** Journals of a class, or of every agent. */
  journals(className?: string): string {
    return `${this.namespace}.journal.${className === undefined ? "" : encodeToken(className) + "."}>`;
  }
  snapshot(id: AgentId): string {
    return `${this.namespace}.snapshot.${this.tail(id)}`;
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
  callsOfShard(shard: ShardId): string {
    return `${this.namespace}.call.${shard}.>`;
  }
  /** Committed states, and the request for the current one. */
  state(id: AgentId): string {
    return `${this.namespace}.state.${this.tail(id)}`;
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

  private tail(id: AgentId): string {
    return `${encodeToken(id.class)}.${encodeToken(id.name)}`;
  }
}
