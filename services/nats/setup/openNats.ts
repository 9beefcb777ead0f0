/**
 * Opens an installation over a connection: reads how it was provisioned, or provisions it first,
 * and builds the `Nats` that all adapters share. Called once per process, by `natsLayer`.
 */
import * as Data from "effect/Data";
import * as Effect from "effect/Effect";
import * as Layer from "effect/Layer";
import type { BrokerUnavailable } from "../../../core/bus/Bus.ts";
import { Subjects } from "../../../schemas/Subjects.ts";
import { AckPublisher, HEADER_BYTES_MAX } from "../client/AckPublisher.ts";
import { GroupPublisher, type GroupCommit } from "../client/GroupPublisher.ts";
import { JetStreamApi, unavailable } from "../client/JetStreamApi.ts";
import { Nats, type NatsShape } from "../client/Nats.ts";
import {
  NatsConnection,
  payloadBytesMax,
  type NatsConnectionShape,
} from "../client/NatsConnection.ts";
import {
  NewerInstallation,
  NotProvisioned,
  provision,
  ProvisioningRefused,
  readInstallation,
  ShardCountMismatch,
  StreamGroupsRefused,
  type ProvisionOptions,
} from "./provision.ts";
import { ReplyInbox } from "../client/ReplyInbox.ts";
import { StreamReader } from "../client/StreamReader.ts";
import { WaitingWrites } from "../client/WaitingWrites.ts";
import {
  isNewEnough,
  NEEDED_VERSION_TEXT,
  parseVersion,
  versionText,
} from "../../natsServer/ServerVersion.ts";

export interface OpenOptions {
  /**
   * Creates or completes the installation first. Without it the installation must exist; otherwise
   * opening fails with `NotProvisioned`.
   */
  readonly provision?: ProvisionOptions;
  /** For a user of the broker who may not use direct gets (`StreamReader`). Default false. */
  readonly leaderOnly?: boolean;
}

/** An older server accepts the streams, and ignores their settings: schedules would never run. */
class ServerTooOld extends Data.TaggedError("ServerTooOld")<{ readonly message: string }> {}

/** The expected failures of opening an installation. */
export type OpenError =
  | BrokerUnavailable
  | ServerTooOld
  | NotProvisioned
  | NewerInstallation
  | ShardCountMismatch
  | StreamGroupsRefused
  | ProvisioningRefused;

/** Rejects with an `OpenError`. */
export async function openNats(
  connection: NatsConnectionShape,
  subjects: Subjects,
  options: OpenOptions = {},
): Promise<NatsShape> {
  checkVersion(connection);
  const replies = new ReplyInbox(connection, connection.newInbox());
  const publisher = new AckPublisher(replies, connection);
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
    waitingWrites: new WaitingWrites(connection, laid),
    ...installation,
    get messageBytesMax() {
      return payloadBytesMax(connection) - HEADER_BYTES_MAX;
    },
  };
}

/** Throws `ServerTooOld`. A version that can't be read is left to whoever built that server. */
function checkVersion({ client }: NatsConnectionShape): void {
  const version = parseVersion(`nats-server: ${client.info?.version}`);
  if (version === undefined || isNewEnough(version)) return;
  throw new ServerTooOld({
    message: `the broker is nats-server ${versionText(version)}, too old (needed: ${NEEDED_VERSION_TEXT}): update it, or use another broker`,
  });
}

/** `namespace`: default `agents`. */
export const layer = (
  options: OpenOptions & { readonly namespace?: string },
): Layer.Layer<Nats, OpenError, NatsConnection> =>
  Layer.effect(
    Nats,
    Effect.flatMap(NatsConnection, (connection) =>
      Effect.tryPromise({
        try: () => openNats(connection, new Subjects(options.namespace), options),
        catch: (error) =>
          error instanceof ServerTooOld ||
          error instanceof NotProvisioned ||
          error instanceof NewerInstallation ||
          error instanceof ShardCountMismatch ||
          error instanceof StreamGroupsRefused ||
          error instanceof ProvisioningRefused
            ? error
            : unavailable(error),
      }),
    ),
  );
