/** The NATS adapters as a conformance backend, on a nats-server of its own. */
import { Subjects } from "../../schemas/Subjects.ts";
import { openNats } from "../../services/nats/setup/openNats.ts";
import { makeNatsBlobs } from "../../services/nats/NatsBlobs.ts";
import { makeNatsBus } from "../../services/nats/NatsBus.ts";
import {
  openConnection,
  type NatsConnectionShape,
} from "../../services/nats/client/NatsConnection.ts";
import { makeNatsDeadLetters } from "../../services/nats/NatsDeadLetters.ts";
import { makeNatsDeliveryLog } from "../../services/nats/NatsDeliveryLog.ts";
import { makeNatsInbox } from "../../services/nats/NatsInbox.ts";
import { makeNatsJournal } from "../../services/nats/NatsJournal.ts";
import { makeNatsJournalFeed } from "../../services/nats/NatsJournalFeed.ts";
import { makeNatsLeases } from "../../services/nats/NatsLeases.ts";
import { makeNatsQuarantines } from "../../services/nats/NatsQuarantines.ts";
import { makeNatsSnapshots } from "../../services/nats/NatsSnapshots.ts";
import { makeNatsTimers } from "../../services/nats/NatsTimers.ts";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import {
  LEASE_TTL_MS,
  PAYLOAD_BYTES_MAX,
  SHARDS,
  type Backend,
  type BackendOptions,
  type Ports,
} from "./Backend.ts";

export interface NatsBackend extends Backend {
  readonly server: TestNats;
  /** Ports over another address, e.g. a proxy in front of the server. */
  readonly openAt: (url: string) => Promise<Ports>;
}

export interface NatsBackendOptions extends BackendOptions {
  readonly groupCommit?: boolean;
  readonly streamGroups?: number;
}

export async function natsBackend({
  groupCommit = false,
  streamGroups = 1,
  leaseTtlMs = LEASE_TTL_MS,
}: NatsBackendOptions = {}): Promise<NatsBackend> {
  const server = await startNats({ maxPayload: PAYLOAD_BYTES_MAX, syncAlways: groupCommit });
  const connections: NatsConnectionShape[] = [];
  const openAt = async (url: string): Promise<Ports> => {
    const connection = await openConnection({ servers: url }, () => undefined);
    connections.push(connection);
    const nats = await openNats(connection, new Subjects(), {
      provision: { shards: SHARDS, streamGroups, leaseTtlMs },
    });
    nats.groupCommit.on = groupCommit;
    const blobs = makeNatsBlobs(nats);
    return {
      blobs,
      journal: makeNatsJournal(nats, blobs),
      feed: makeNatsJournalFeed(nats, blobs),
      inbox: makeNatsInbox(nats, blobs),
      leases: makeNatsLeases(nats),
      quarantines: makeNatsQuarantines(nats),
      snapshots: makeNatsSnapshots(nats, blobs),
      deadLetters: makeNatsDeadLetters(nats, blobs),
      deliveries: makeNatsDeliveryLog(nats),
      bus: makeNatsBus(nats),
      timers: makeNatsTimers(nats),
    };
  };
  return {
    name: "nats",
    server,
    openAt,
    open: () => openAt(server.url),
    kill: server.kill,
    restart: server.restart,
    nowMs: () => performance.now(),
    wallMs: () => Date.now(),
    until: (what, check) => pollUntil(what, check, { intervalMs: 10 }),
    close: async () => {
      for (const connection of connections) await connection.close();
      await server.stop();
    },
  };
}
