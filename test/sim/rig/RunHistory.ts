/** One run as the checkers see it: what was observed, and what broker and disks hold after it. */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { addressKey, type AgentId, type Sequence } from "../../../schemas/Address.ts";
import { decodeDeadLetter } from "../../../schemas/DeadLetter.ts";
import { CorruptFrame, UnknownVersion } from "../../../schemas/Frame.ts";
import { decodeEnvelope } from "../../../schemas/InboxEnvelope.ts";
import { decodeEvent, type JournalHead } from "../../../schemas/JournalEvent.ts";
import { LocalImageCorrupt, type DatabasesShape } from "../../../core/database/Databases.ts";
import type { JournalShape, StoredEvent } from "../../../core/journal/Journal.ts";
import { rebuildAgent, type RebuildSources } from "../../../core/journal/rebuildAgent.ts";
import { makeMemoryJournal } from "../../../services/memory/MemoryJournal.ts";
import { makeMemorySnapshots } from "../../../services/memory/MemorySnapshots.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import type { Picture } from "../../kit/checkers.ts";
import { filesOf } from "../faults.ts";
import type { Installation } from "../Installation.ts";
import { archivedJournal } from "../../../core/retention/archivedJournal.ts";
import type { SnapshotsShape } from "../../../core/journal/Snapshots.ts";
import { makeArchive } from "../simArchive.ts";
import type { Observed } from "./Observed.ts";
import { MONEY } from "../Payer.ts";

export interface JournaledEvent {
  readonly seq: number;
  /** By the broker's clock. */
  readonly storedMs: number;
  readonly head: JournalHead;
}

export interface AgentHistory {
  readonly id: AgentId;
  /** Those that can be read. */
  readonly events: ReadonlyArray<JournaledEvent>;
  /** Sequences of those that can't. */
  readonly unreadable: ReadonlyArray<number>;
  /** Every way to rebuild it; none when its journal is damaged. */
  readonly pictures: ReadonlyArray<Picture>;
  /** For an agent with a trimmed journal: ways that give other bytes than its whole history. */
  readonly differing: ReadonlyArray<string>;
  /** What full replay ended with, where it failed. */
  readonly refused: string | undefined;
  /** Keys in SQL, in order; undefined where there is no such table. */
  readonly marks: ReadonlyArray<string> | undefined;
  /** The rows in the schedule table that are armed. */
  readonly armed: ReadonlyArray<string>;
  /** For a marcher: its steps in order, and its owed fibers; undefined without such a table. */
  readonly steps: ReadonlyArray<string> | undefined;
  readonly fibers: ReadonlyArray<string> | undefined;
  /** For a caller: what its turns wrote, in order; undefined where there is no such table. */
  readonly parts: ReadonlyArray<string> | undefined;
  /** For a payer: its bills' orders, what its budget has spent, its number of reservations. */
  readonly bills: ReadonlyArray<string> | undefined;
  readonly used: string | undefined;
  readonly reserved: number | undefined;
  /** For a tape: its notes, and what each of its restores put back. */
  readonly notes: ReadonlyArray<string> | undefined;
  readonly points: ReadonlyArray<PutBack>;
  /** For an asker: what its questions were answered, the votes on them, and its approvals. */
  readonly answers: ReadonlyArray<string> | undefined;
  readonly votes: ReadonlyArray<string> | undefined;
  readonly approvals: ReadonlyArray<string> | undefined;
  /** The addresses of its sub-agents. */
  readonly below: ReadonlyArray<string> | undefined;
  /** For a workflow instance: its status, and what it ended with as JSON. */
  readonly ended: string | undefined;
}

/** Event `seq` put the agent back to event `at`: all of it after both, as text. */
export interface PutBack {
  readonly seq: number;
  readonly at: number;
  readonly before: string;
  readonly after: string;
}

export interface Letter {
  readonly agent: string;
  readonly key: string;
}

export interface RunHistory {
  readonly observed: Observed;
  readonly agents: ReadonlyArray<AgentHistory>;
  /** What the archive does not give back as it was, in words. */
  readonly lostInArchive: ReadonlyArray<string>;
  readonly letters: ReadonlyArray<Letter>;
  /** Dedup keys of inputs that are stored and not done, by agent. */
  readonly waiting: ReadonlyArray<Letter>;
  /** From then on nothing was broken. */
  readonly calmFromMs: number;
  /** Schedules were cancelled then. */
  readonly cancelledMs: number;
  /** The hosts began to stop. */
  readonly stoppedMs: number;
  /** Everything that is stored, for a search of bytes. */
  readonly stored: () => Iterable<{ readonly where: string; readonly bytes: Uint8Array }>;
}

const FULL = "full replay";
const BY_SNAPSHOT = "a snapshot and replay";

export async function readHistory(
  installation: Installation,
  times: Pick<RunHistory, "calmFromMs" | "cancelledMs" | "stoppedMs">,
): Promise<RunHistory> {
  const { broker, observed } = installation;
  const reader = broker.connect("reader");
  const journal = makeMemoryJournal(reader);
  const snapshots = makeMemorySnapshots(reader);
  const lostInArchive = await readArchive(installation, journal, snapshots);
  const untrimmed = untrimmedJournal(installation, journal);
  const memory = await openSqliteDatabases({ folder: undefined });
  const ways: Array<readonly [string, DatabasesShape, boolean]> = [
    [FULL, memory.databases, false],
    [BY_SNAPSHOT, memory.databases, true],
  ];
  const opened = [memory];
  for (const [n, folder] of installation.disks.entries()) {
    const disk = await openSqliteDatabases({ folder });
    opened.push(disk);
    ways.push([`the cache on disk ${n} and replay`, disk.databases, true]);
  }
  const agents: AgentHistory[] = [];
  for (const { id } of broker.journal.entries())
    agents.push(
      await readAgent(
        id,
        installation,
        ways
          // For an agent that has none, it would be the full replay again.
          .filter(
            ([way]) =>
              way !== BY_SNAPSHOT ||
              broker.snapshots.has(addressKey(id)) ||
              observed.trimmed.has(addressKey(id)),
          )
          .map(([way, databases, whole]) => [
            way,
            whole ? { journal, databases, snapshots } : { journal: untrimmed, databases },
          ]),
      ),
    );
  for (const { close } of opened) close();
  return {
    observed,
    lostInArchive,
    agents,
    letters: broker.deadLetters.all().map(({ id, data }) => ({
      agent: id.name,
      key: keyOf(decodeDeadLetter(data).input),
    })),
    // A timer that is due when the hosts stop comes when nobody is there.
    waiting: waitingIn(installation)
      .map(({ id, data }) => ({ agent: id.name, head: decodeEnvelope(data).head }))
      .filter(({ head }) => head.time < times.stoppedMs)
      .map(({ agent, head }) => ({ agent, key: head.key })),
    ...times,
    stored: function* () {
      for (const { id } of broker.journal.entries())
        for (const { seq, data } of broker.journal.eventsOf(id))
          yield { where: `event ${seq} of ${addressKey(id)}`, bytes: data };
      for (const { id, seq, data } of waitingIn(installation))
        yield { where: `input ${seq} of ${addressKey(id)}`, bytes: data };
      for (const [key, kept] of broker.snapshots)
        for (const bytes of kept) yield { where: `a snapshot of ${key}`, bytes };
      for (const [key, { copies }] of broker.bases.all())
        for (const bytes of copies) if (bytes) yield { where: `a base of ${key}`, bytes };
      for (const [key, bytes] of installation.archived)
        yield { where: `archived ${key}`, bytes: key.endsWith(".gz") ? gunzipSync(bytes) : bytes };
      for (const [name, bytes] of broker.blobs) yield { where: `blob ${name}`, bytes };
      for (const { id, data } of broker.deadLetters.all())
        yield { where: `a dead letter of ${addressKey(id)}`, bytes: data };
      for (const disk of installation.disks)
        for (const file of filesOf(disk)) yield { where: file, bytes: readFileSync(file) };
    },
  };
}

/** One that was gone when it was buried has none; only planted bugs do that. */
const keyOf = (input: Uint8Array): string =>
  input.length === 0 ? "" : decodeEnvelope(input).head.key;

/** Inputs that are stored and not acked. */
export function waitingIn({ broker }: Installation) {
  const { inbox } = broker;
  const found: Array<NonNullable<ReturnType<typeof inbox.get>>> = [];
  for (let seq = 1, left = inbox.depth; left > 0; seq++) {
    const input = inbox.get(seq as Sequence);
    if (input === undefined) continue;
    found.push(input);
    left--;
  }
  return found;
}

async function readAgent(
  id: AgentId,
  installation: Installation,
  ways: ReadonlyArray<readonly [string, RebuildSources]>,
): Promise<AgentHistory> {
  const { weather, observed } = installation;
  const cores = new Map<string, Uint8Array>();
  const events: JournaledEvent[] = [];
  const unreadable: number[] = [];
  for (const { seq, storedMs, data } of allEventsOf(installation, id))
    try {
      events.push({ seq, storedMs, head: decodeEvent(data).head });
    } catch (error) {
      if (!(error instanceof CorruptFrame || error instanceof UnknownVersion)) throw error;
      unreadable.push(seq);
    }
  const pictures: Picture[] = [];
  let refused: string | undefined;
  let marks: string[] | undefined;
  let armed: string[] = [];
  let steps: string[] | undefined;
  let fibers: string[] | undefined;
  let parts: string[] | undefined;
  let bills: string[] | undefined;
  let used: string | undefined;
  let reserved: number | undefined;
  let notes: string[] | undefined;
  let points: ReadonlyArray<PutBack> = [];
  let answers: string[] | undefined;
  let votes: string[] | undefined;
  let approvals: string[] | undefined;
  let below: string[] | undefined;
  let ended: string | undefined;
  for (const [way, sources] of ways)
    try {
      const rebuilt = await rebuildAgent(id, sources);
      const { database, state } = rebuilt;
      pictures.push({ way, state, image: database.image() });
      if (observed.trimmed.has(addressKey(id)))
        cores.set(way, rebuilt.image.encode(database.image()));
      if (way === FULL) {
        marks = column(database, "SELECT key FROM marks ORDER BY n");
        armed = column(database, "SELECT id FROM svc_agents_schedules") ?? [];
        steps = column(
          database,
          "SELECT march || ' ' || step || ' ' || answer FROM steps ORDER BY rowid",
        );
        parts = column(
          database,
          "SELECT ord || ' ' || part || ' ' || run || ' ' || returned FROM parts ORDER BY rowid",
        );
        fibers = column(
          database,
          "SELECT fiber_id || ' ' || status FROM cf_agents_fibers WHERE owed = 1",
        );
        bills = column(database, "SELECT ord FROM bills");
        [used] =
          column(database, `SELECT used FROM cf_agents_budget_uses WHERE name = '${MONEY}'`) ?? [];
        reserved = column(database, "SELECT key FROM cf_agents_budget_spends")?.length;
        notes = column(database, "SELECT key FROM notes ORDER BY n");
        points = await pointsOf(id, events, sources);
        answers = column(
          database,
          "SELECT petition || ' ' || what || ' ' || who FROM answers ORDER BY rowid",
        );
        votes = column(
          database,
          "SELECT petition || ' ' || what || ' ' || who || ' ' || taken FROM votes ORDER BY rowid",
        );
        approvals = column(
          database,
          "SELECT name || ' ' || status || ' ' || coalesce(decided_by, '') FROM cf_agents_approvals ORDER BY rowid",
        );
        below = column(database, "SELECT name FROM cf_agents_sub_agents");
        [ended] =
          column(database, "SELECT status || ' ' || coalesce(output, '') FROM workflow_run") ?? [];
      }
      database.close();
    } catch (error) {
      // A page is checked when it is read; a host throws such a cache away then.
      const isFound = error instanceof LocalImageCorrupt && weather.bites.has("damage disk");
      if (!isFound) refused ??= `${way}: ${String(error)}`;
    }
  const whole = cores.get(FULL);
  const differing = [...cores].flatMap(([way, core]) =>
    whole !== undefined && Buffer.compare(core, whole) !== 0 ? [way] : [],
  );
  return { id, events, unreadable, pictures, differing, refused, marks, armed, steps, fibers, parts, bills, used, reserved, notes, points, answers, votes, approvals, below, ended }; // prettier-ignore
}

async function pointsOf(
  id: AgentId,
  events: ReadonlyArray<JournaledEvent>,
  sources: RebuildSources,
): Promise<ReadonlyArray<PutBack>> {
  const agentAt = async (atSeq: number): Promise<string> => {
    const { database, state } = await rebuildAgent(id, { ...sources, atSeq });
    const notes = column(database, "SELECT n || ' ' || key FROM notes ORDER BY n");
    const schedules = column(database, ALL_SCHEDULES);
    database.close();
    return JSON.stringify({ state, notes, schedules });
  };
  const found: PutBack[] = [];
  for (const { seq, head } of events)
    for (const { restored } of head.turns)
      if (restored?.seq !== undefined)
        found.push({
          seq,
          at: restored.seq,
          before: await agentAt(restored.seq),
          after: await agentAt(seq),
        });
  return found;
}

const ALL_SCHEDULES =
  "SELECT id || ' ' || type || ' ' || coalesce(due_ms, '') || ' ' || running || ' ' || coalesce(started_ms, '') FROM svc_agents_schedules ORDER BY id";

/** With those that were trimmed. */
const allEventsOf = (
  { broker, observed }: Installation,
  id: AgentId,
): ReadonlyArray<StoredEvent> => {
  const trimmed = observed.trimmed.get(addressKey(id)) ?? [];
  const last = trimmed.at(-1)?.seq ?? 0;
  return [...trimmed, ...broker.journal.eventsOf(id).filter(({ seq }) => seq > last)];
};

const untrimmedJournal = (installation: Installation, journal: JournalShape): JournalShape => ({
  ...journal,
  read: async function* (id, { fromSeq, toSeq = Infinity }) {
    for (const event of allEventsOf(installation, id))
      if (event.seq >= fromSeq && event.seq <= toSeq) yield event;
  },
});

/** In runs with an archive every event that was trimmed is read back through it, and equal. */
async function readArchive(
  installation: Installation,
  journal: JournalShape,
  snapshots: SnapshotsShape,
): Promise<string[]> {
  const { observed } = installation;
  if (!observed.archives) return [];
  const whole = archivedJournal({ journal, snapshots, archive: makeArchive(installation) });
  const wrong: string[] = [];
  for (const { id } of installation.broker.journal.entries()) {
    const trimmed = observed.trimmed.get(addressKey(id)) ?? [];
    const read = new Map<number, Uint8Array>();
    try {
      if (trimmed.length > 0)
        for await (const { seq, data } of whole.read(id, { fromSeq: 1 as Sequence }))
          read.set(seq, data);
    } catch (error) {
      wrong.push(`${addressKey(id)}: ${String(error)}`);
    }
    for (const { seq, data } of trimmed)
      if (Buffer.compare(read.get(seq) ?? new Uint8Array(0), data) !== 0)
        wrong.push(`${addressKey(id)}: event ${seq} is not in the archive as it was`);
  }
  return wrong;
}

/** Undefined where the table is not there. */
function column(
  database: { readonly query: ReturnType<DatabasesShape["open"]>["database"]["query"] },
  sql: string,
): string[] | undefined {
  try {
    return database.query(sql, []).rows.map(([value]) => String(value));
  } catch {
    return undefined;
  }
}
