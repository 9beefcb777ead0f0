/**
 * The state that the NATS adapters of a process share: the connection, the clients for requests and
 * publishes, and the settings with which the installation was provisioned. `openNats` builds it;
 * the adapters are plain functions of it.
 */
import * as Context from "effect/Context";
import type { Subjects } from "../../../schemas/Subjects.ts";
import type { AckPublisher } from "./AckPublisher.ts";
import type { GroupCommit, StreamPublisher } from "./GroupPublisher.ts";
import type { JetStreamApi } from "./JetStreamApi.ts";
import type { NatsConnectionShape } from "./NatsConnection.ts";
import type { ReplyInbox } from "./ReplyInbox.ts";
import type { StreamReader } from "./StreamReader.ts";
import type { WaitingWrites } from "./WaitingWrites.ts";

export interface NatsShape {
  readonly connection: NatsConnectionShape;
  /** Include the installation's layout, so that they can name streams, journals and snapshots. */
  readonly subjects: Subjects;
  /** Receives the broker's replies. */
  readonly replies: ReplyInbox;
  /** Receives hosts' answers to calls, and batches with them. Only hosts learn its address. */
  readonly answers: ReplyInbox;
  /**
   * Answers to everything else, and batches with those who call this process. Gateways learn its
   * address and may publish there. They can't end a call, whose answer comes to `answers`.
   */
  readonly callers: ReplyInbox;
  readonly publisher: AckPublisher;
  /** Shared by the publishers below. Off at first; turned on where the server syncs every write. */
  readonly groupCommit: GroupCommit;
  /** One publisher per stream group, because an atomic batch never spans two streams. */
  readonly journalPublishers: ReadonlyArray<StreamPublisher>;
  /** As `journalPublishers`, for the inbox streams. */
  readonly inboxPublishers: ReadonlyArray<StreamPublisher>;
  readonly api: JetStreamApi;
  readonly reader: StreamReader;
  readonly waitingWrites: WaitingWrites;
  readonly shards: number;
  readonly streamGroups: number;
  readonly leaseTtlMs: number;
  /**
   * Bytes of the largest payload that a stream stores directly. A larger one becomes a claim check.
   * That of the server that is connected now: an operator may have changed it.
   */
  readonly messageBytesMax: number;
}

export class Nats extends Context.Service<Nats, NatsShape>()("agents/services/nats/Nats") {}
