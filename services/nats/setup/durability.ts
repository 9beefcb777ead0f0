/**
 * Determines how durable an acknowledged message is: whether each server that holds a copy writes
 * to disk before it acknowledges (`sync_interval: always`), and the number of copies. Read at a
 * process's start, after each reconnect, and while a server is away; reported by the log, `/readyz`
 * and `--require-durable`.
 *
 * The servers report their configuration only with permission (`$SYS.REQ.SERVER.PING.JSZ`, exported
 * to the account: `deploy/nats/accounts.conf`). Without it the result is "unknown" and never a
 * guess.
 *
 * A server that is silent where others answer, or has turned JetStream off, is away and stores
 * nothing. Acknowledgements then come from the others, a majority of each stream's copies. The
 * server is asked again once it is back.
 */
import * as Data from "effect/Data";
import type { NatsShape } from "../client/Nats.ts";
import { isNoResponders } from "../client/ReplyInbox.ts";

export type Durability =
  /**
   * Acknowledged messages are on disk on `replicas` servers, on a majority of them before the
   * acknowledgement. `away`: the servers that hold copies and store nothing. The caller asks them
   * again.
   */
  | { readonly _tag: "Durable"; readonly replicas: number; readonly away: ReadonlyArray<string> }
  /** A power failure can lose acknowledged messages. */
  | { readonly _tag: "Weak"; readonly replicas: number; readonly why: string }
  /** The servers do not report their configuration. */
  | { readonly _tag: "Unknown"; readonly replicas: number; readonly why: string };

/** `--require-durable` is set, and the broker is not known to be durable. */
export class NotDurable extends Data.TaggedError("NotDurable")<{ readonly message: string }> {}

const SERVERS = "$SYS.REQ.SERVER.PING.JSZ";
/** Every server of a cluster answers within milliseconds; one that is down never does. */
const ANSWERS_TIMEOUT_MS = 1_500;

interface StreamInfo {
  readonly config: { readonly storage?: string; readonly num_replicas?: number };
  readonly cluster?: {
    readonly leader?: string;
    readonly replicas?: ReadonlyArray<{ readonly name: string }>;
  };
}

export interface ServerAnswer {
  readonly server: { readonly name: string };
  readonly data?: {
    /** JetStream is off there. The server turns it off itself when its disk is full. */
    readonly disabled?: boolean;
    readonly config?: { readonly sync_always?: boolean; readonly sync_interval?: number };
  };
}

type Broker = Pick<NatsShape, "api" | "connection" | "replies" | "subjects">;

/** Rejects with `BrokerUnavailable` or `ApiRefusal`. */
export async function readDurability(nats: Broker): Promise<Durability> {
  const { subjects, api, connection } = nats;
  const infos = await Promise.all(
    storingStreams(subjects).map((stream) => api.streamInfo<StreamInfo>(stream)),
  );
  const replicas = Math.min(...infos.map(({ config }) => config.num_replicas ?? 1));
  if (infos.some(({ config }) => config.storage === "memory"))
    return { _tag: "Weak", replicas, why: "streams are kept in memory" };
  const only = connection.client.info?.server_name ?? "";
  const holders = infos.map(holdersOf).map((names) => (names.length === 0 ? [only] : names));
  return judge(holders, await askServers(nats, new Set(holders.flat())), replicas);
}

/** The names of all streams that store agents' data. */
export const storingStreams = (subjects: NatsShape["subjects"]): ReadonlyArray<string> => [
  ...subjects.streamsOf("inbox"),
  ...subjects.streamsOf("timers"),
  ...subjects.streamsOf("journal"),
  ...subjects.streamsOf("snapshots"),
  subjects.stream.dead,
  subjects.stream.bodies,
  `OBJ_${subjects.bucket.blobs}`,
];

/** One line for the log and for operators. */
export function describeDurability(durability: Durability): string {
  const { replicas } = durability;
  const copies = replicas === 1 ? "1 copy: lost with its disk" : `${replicas} copies`;
  if (durability._tag === "Durable") {
    const { away } = durability;
    const without =
      away.length === 0
        ? ""
        : `; without ${away.join(", ")}, which did not answer or stores nothing`;
    return `acknowledged is on disk (${copies}${without})`;
  }
  const start = durability._tag === "Weak" ? "not power-safe" : "unknown";
  return `${start} (${copies}): ${durability.why}`;
}

const holdersOf = ({ cluster }: StreamInfo): string[] =>
  [cluster?.leader, ...(cluster?.replicas ?? []).map(({ name }) => name)].filter(
    (name) => name !== undefined && name !== "",
  ) as string[];

/**
 * Evaluates the answers of the servers that hold copies. Pure. `holders`: for each stream, the
 * servers with a copy; other servers are ignored. `answers`: by server name.
 */
export function judge(
  holders: ReadonlyArray<ReadonlyArray<string>>,
  answers: ReadonlyMap<string, ServerAnswer>,
  replicas: number,
): Durability {
  const silent: string[] = [];
  for (const name of new Set(holders.flat())) {
    const { config, disabled } = answers.get(name)?.data ?? {};
    if (config === undefined || disabled === true) silent.push(name);
    else if (config.sync_always !== true)
      return {
        _tag: "Weak",
        replicas,
        why: `the server ${name} acknowledges before it writes to disk, which it does every ${(config.sync_interval ?? 0) / 1e9} s: set "sync_interval: always" in its jetstream block`,
      };
  }
  const isMajority = (names: ReadonlyArray<string>): boolean =>
    names.filter((name) => !silent.includes(name)).length > names.length / 2;
  if (holders.every(isMajority)) return { _tag: "Durable", replicas, away: silent };
  const who = answers.size === 0 ? "the broker does" : `${silent.join(", ")} did`;
  return {
    _tag: "Unknown",
    replicas,
    why: `${who} not say how it syncs to disk: allow this account to request ${SERVERS} (deploy/nats/accounts.conf)`,
  };
}

function askServers(
  { replies }: Broker,
  holders: ReadonlySet<string>,
): Promise<ReadonlyMap<string, ServerAnswer>> {
  const answers = new Map<string, ServerAnswer>();
  return new Promise((resolve) => {
    const done = (): void => resolve(answers);
    replies.send(
      SERVERS,
      new Uint8Array(0),
      {
        reply: (message) => {
          if (!isNoResponders(message)) {
            const answer = JSON.parse(message.string()) as ServerAnswer;
            answers.set(answer.server.name, answer);
            if ([...holders].some((name) => !answers.has(name))) return false;
          }
          done();
          return true;
        },
        lost: done,
      },
      { timeoutMs: ANSWERS_TIMEOUT_MS },
    );
  });
}
