/**
 * The stored data of a real installation, recorded once: every message of the journals, snapshots
 * and blobs, and a host's cache files. `Recorded` then plays the broker that returns them, one of
 * them damaged, to the product's own adapters.
 */
import { cpSync } from "node:fs";
import { join } from "node:path";
import { agentId, type AgentId } from "../../../schemas/Address.ts";
import { Subjects } from "../../../schemas/Subjects.ts";
import type { NatsShape } from "../../../services/nats/client/Nats.ts";
import { openNats } from "../../../services/nats/setup/openNats.ts";
import { objectStore } from "../../../services/nats/layout/blobStores.ts";
import { makeNatsBlobs } from "../../../services/nats/NatsBlobs.ts";
import { openConnection } from "../../../services/nats/client/NatsConnection.ts";
import { makeNatsJournal } from "../../../services/nats/NatsJournal.ts";
import { makeNatsSnapshots } from "../../../services/nats/NatsSnapshots.ts";
import type { StreamReader } from "../../../services/nats/client/StreamReader.ts";
import type { StoredMessage, StreamRange } from "../../../services/nats/client/StreamReading.ts";
import { pollUntil } from "../../kit/poll.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import { Installation, SECRET } from "../../kit/Installation.ts";
import { Senders } from "../Senders.ts";
import { BYTES_OF, type KeeperSize } from "./keeperModule.ts";

/** Small, so that large events and snapshots become claims whose blobs have several chunks. */
const PAYLOAD_BYTES_MAX = 64 * 1024;
const SHARDS = 4;
const LEASE_TTL_MS = 2_000;
/** Enough of each that one damaged thing is seldom damaged twice in the same way. */
const AGENTS_OF: Readonly<Record<KeeperSize, number>> = { small: 4, large: 3, huge: 2 };
/** Events of each agent: enough for a snapshot, and few enough to read thousands of times. */
const INPUTS = 60;
const SENDERS = 8;
const SETTLED_TIMEOUT_MS = 90_000;

export interface StoredAt extends StoredMessage {
  readonly stream: string;
}

export interface Material {
  readonly ids: ReadonlyArray<AgentId>;
  readonly messages: ReadonlyArray<StoredAt>;
  readonly subjects: Subjects;
  /** The cache files of the host that stopped in order. */
  readonly images: string;
  readonly remove: () => void;
}

/** A nats-server, a gateway and a host, which has stopped when this resolves. */
export async function makeMaterial(): Promise<Material> {
  const folder = tempFolder("material");
  const installation = await Installation.start({
    shards: SHARDS,
    leaseTtlMs: LEASE_TTL_MS,
    module: join(import.meta.dirname, "keeperModule.ts"),
    maxPayload: PAYLOAD_BYTES_MAX,
  });
  try {
    const host = await installation.startHost("host");
    await installation.shared(1);
    const sizes = Object.keys(BYTES_OF) as KeeperSize[];
    const ids = sizes.flatMap((size) =>
      Array.from({ length: AGENTS_OF[size] }, (_, n) => agentId("Keeper", `${size}-${n}`)),
    );
    const senders = new Senders({
      url: installation.gateway.url,
      secret: SECRET,
      deliveries: Array.from({ length: INPUTS * ids.length }, (_, n) => ({
        agent: ids[n % ids.length]!.name,
        id: `input-${n}`,
      })),
      concurrency: SENDERS,
      paceMs: 0,
      heldBack: 0,
    });
    await senders.finished;
    const snapshotsOf = async (id: AgentId): Promise<number> => {
      let count = 0;
      for await (const _ of installation.ports.snapshots.newestFirst(id)) count++;
      return count;
    };
    await pollUntil(
      "every keeper has a snapshot",
      async () => {
        const counts = await Promise.all(ids.map(snapshotsOf));
        return counts.every((count) => count > 0) || { done: false, saw: counts };
      },
      { timeoutMs: SETTLED_TIMEOUT_MS, intervalMs: 100 },
    );
    await host.stop();
    const images = join(folder.path, "images");
    cpSync(installation.imagesOf("host"), images, { recursive: true });
    const { messages, subjects } = await messagesOf(installation.nats.url);
    return { ids, messages, subjects, images, remove: folder.remove };
  } finally {
    await installation.stop();
  }
}

async function messagesOf(url: string): Promise<Pick<Material, "messages" | "subjects">> {
  const connection = await openConnection({ servers: url }, () => undefined);
  const nats = await openNats(connection, new Subjects());
  const { subjects } = nats;
  const streams = [
    ...subjects.streamsOf("journal"),
    ...subjects.streamsOf("snapshots"),
    objectStore(subjects).stream,
  ];
  const messages: StoredAt[] = [];
  for (const stream of streams)
    for await (const message of nats.reader.messages(stream, ">", { fromSeq: 1 }))
      messages.push({ ...message, stream });
  await connection.close();
  return { messages, subjects };
}

/** The broker, as far as the adapters ask it to read. */
export class Recorded {
  readonly reader: Pick<StreamReader, "messages" | "batches" | "byLeader" | "direct">;
  readonly journal: ReturnType<typeof makeNatsJournal>;
  readonly snapshots: ReturnType<typeof makeNatsSnapshots>;
  /** Given instead of what was stored. */
  damaged: { readonly message: StoredAt; readonly data: Uint8Array } | undefined;
  private readonly bySubject = new Map<string, StoredAt[]>();

  constructor({ messages, subjects }: Material) {
    for (const message of messages) {
      const at = `${message.stream} ${message.subject}`;
      const known = this.bySubject.get(at);
      if (known === undefined) this.bySubject.set(at, [message]);
      else known.push(message);
    }
    const of = this.of.bind(this);
    const get: StreamReader["direct"] = (stream, query) =>
      Promise.resolve(
        "last_by_subj" in query
          ? of(stream, query.last_by_subj).at(-1)
          : messages.find((message) => message.stream === stream && message.seq === query.seq),
      );
    const within = (
      stream: string,
      subject: string,
      { fromSeq, toSeq = Infinity }: StreamRange,
    ): StoredMessage[] => of(stream, subject).filter(({ seq }) => seq >= fromSeq && seq <= toSeq);
    this.reader = {
      messages: async function* (...asked) {
        yield* within(...asked);
      },
      batches: async function* (...asked) {
        yield within(...asked);
      },
      byLeader: get,
      direct: get,
    };
    // Readers use no more of it.
    const nats = { subjects, reader: this.reader } as unknown as NatsShape;
    const blobs = makeNatsBlobs(nats);
    this.journal = makeNatsJournal(nats, blobs);
    this.snapshots = makeNatsSnapshots(nats, blobs);
  }

  private of(stream: string, subject: string): StoredMessage[] {
    const { damaged } = this;
    return (this.bySubject.get(`${stream} ${subject}`) ?? []).map((message) =>
      message === damaged?.message ? { ...message, data: damaged.data } : message,
    );
  }
}
