/**
 * What the NATS adapters share: the connection, the ways to ask and to publish, and what the
 * installation was provisioned with. Built once a process by `natsLayer`; the adapters are plain
 * functions of it.
 */
import * as Context from "effect/Context";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { AckPublisher, HEADER_BYTES_MAX } from "./AckPublisher.ts";
import { GroupPublisher, type GroupCommit, type StreamPublisher } from "./GroupPublisher.ts";
import { JetStreamApi, unavailable } from "./JetStreamApi.ts";
import { NatsConnection, type NatsConnectionShape } from "./NatsConnection.ts";
import {
  NotProvisioned,
  provision,
  ProvisioningRefused,
  readInstallation,
  ShardCountMismatch,
  StreamGroupsRefused,
  type ProvisionOptions,
} from "./provision.ts";
import { ReplyInbox } from "./ReplyInbox.ts";
import { StreamReader } from "./StreamReader.ts";

export interface NatsShape {
  readonly connection: NatsConnectionShape;
  /** With the installation's layout: they name streams, journals and snapshots. */
  readonly subjects: Subjects;
  /** Of the broker. */
  readonly replies: ReplyInbox;
  /** Answers of hosts to calls, and batches with them. Only hosts learn its address. */
  readonly answers: ReplyInbox;
  /**
   * Answers to everything else, and batches with those who call this process. Gateways learn its
   * address and may publish there. They can't end a call, whose answer comes to `answers`.
   */
  readonly callers: ReplyInbox;
  readonly publisher: AckPublisher;
  /** For the two below. Off at first: turn it on where the server syncs always. */
  readonly groupCommit: GroupCommit;
  /** The streams that every webhook writes to, by stream group: a batch never spans two. */
  readonly journalPublishers: ReadonlyArray<StreamPublisher>;
  readonly inboxPublishers: ReadonlyArray<StreamPublisher>;
  readonly api: JetStreamApi;
  readonly reader: StreamReader;
  readonly shards: number;
  readonly streamGroups: number;
  readonly leaseTtlMs: number;
  /** Bytes of the largest message that goes into a stream as it is; more becomes a claim check. */
  readonly messageBytesMax: number;
}

export interface OpenOptions {
  /** Given: the installation is created or completed first. Left out: it must be there (`NotProvisioned`). */
  readonly provision?: ProvisionOptions;
  /** For a user of the broker that may not read directly (`StreamReader`). */
  readonly leaderOnly?: boolean;
}

/**
 * With `provision` it creates or completes the installation first; without, it must be there.
 * Rejects with `NotProvisioned`, `ShardCountMismatch`, `StreamGroupsRefused`, `ProvisioningRefused` or `BrokerUnavailable`.
 */
export async function openNats(
  connection: NatsConnectionShape,
  subjects: Subjects,
  options: OpenOptions = {},
): Promise<NatsShape> {
  const replies = new ReplyInbox(connection, connection.newInbox());
  const publisher = new AckPublisher(replies);
  const groupCommit: GroupCommit = { on: false };
  const api = new JetStreamApi(replies);
  const reader = new StreamReader(replies, api, options);
  const installation =
    options.provision === undefined
      ? await readInstallation(api, subjects)
      : await provision({ api, publisher, reader }, subjects, options.provision);
  const laid = subjects.withLayout(installation);
  return {
    connection,
    subjects: laid,
    replies,
    answers: new ReplyInbox(connection, connection.newAnswerInbox()),
    callers: new ReplyInbox(connection, connection.newAnswerInbox()),
    api,
    publisher,
    groupCommit,
    journalPublishers: laid.groups.map(
      () => new GroupPublisher(publisher, groupCommit, laid.groups.length),
    ),
    inboxPublishers: laid.groups.map(
      () => new GroupPublisher(publisher, groupCommit, laid.groups.length),
    ),
    reader,
    ...installation,
    messageBytesMax: payloadBytesMax(connection) - HEADER_BYTES_MAX,
  };
}

/** nats-server's default, for a server that does not say. */
const PAYLOAD_BYTES_DEFAULT = 1024 * 1024;

export const payloadBytesMax = (connection: NatsConnectionShape): number =>
  connection.client.info?.max_payload ?? PAYLOAD_BYTES_DEFAULT;

export type OpenError =
  | BrokerUnavailable
  | NotProvisioned
  | ShardCountMismatch
  | StreamGroupsRefused
  | ProvisioningRefused;

export class Nats extends Context.Service<Nats, NatsShape>()("agents/services/nats/Nats") {}

export const layer = (
  options: OpenOptions & { readonly namespace?: string },
): Layer.Layer<Nats, OpenError, NatsConnection> =>
  Layer.effect(
    Nats,
    Effect.flatMap(NatsConnection, (connection) =>
      Effect.tryPromise({
        try: () => openNats(connection, new Subjects(options.namespace), options),
        catch: (error) =>
          error instanceof NotProvisioned ||
          error instanceof ShardCountMismatch ||
          error instanceof StreamGroupsRefused ||
          error instanceof ProvisioningRefused
            ? error
            : unavailable(error),
      }),
    ),
  );
