/** Agents in a memory broker whose events tests write by hand, and the rows of a right view. */
import type { ViewSources } from "../../core/query/View.ts";
import { bareEnd } from "../../core/journal/endLife.ts";
import { diffState } from "../../core/journal/stateChange.ts";
import { rebuildAgent } from "../../core/journal/rebuildAgent.ts";
import { trimAgent, type TrimPorts } from "../../core/retention/trimAgent.ts";
import { ScheduleTable, toSchedule } from "../../core/schedule/ScheduleTable.ts";
import type { AgentDatabase } from "../../core/database/Databases.ts";
import { addressKey, agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent, type JournalHead, type TurnRecord } from "../../schemas/JournalEvent.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

/** Past what always stays. */
const LONG_MS = 120_000;

/** An agent as it is live. */
interface Live {
  state: string | undefined;
  database: AgentDatabase;
  pages: number;
}

export interface Change {
  readonly state?: unknown;
  readonly error?: string;
  /** An id whose schedule is added, or removed where it is there. */
  readonly schedule?: string;
}

export class Fleet {
  readonly time = new VirtualTime({ seed: 1 });
  readonly broker = new MemoryBroker({ time: this.time });
  /** When the broker's only stream was created. */
  created = "2026-01-01T00:00:00Z";
  readonly ports: TrimPorts;
  private readonly live = new Map<string, Live>();
  private count = 0;

  private constructor(opened: Awaited<ReturnType<typeof openSqliteDatabases>>) {
    const wire = this.broker.connect();
    this.ports = {
      journal: makeMemoryJournal(wire),
      snapshots: makeMemorySnapshots(wire),
      databases: opened.databases,
      time: this.time,
    };
  }

  static async open(): Promise<Fleet> {
    return new Fleet(await openSqliteDatabases({ folder: undefined }));
  }

  get end(): number {
    return this.broker.journal.end;
  }

  /** The JSON text of a live agent's state. */
  stateOf(id: AgentId): string | undefined {
    return this.live.get(addressKey(id))?.state;
  }

  /** `stopAfter`: kills the reader after so many events. `meanwhile`: once the first was read. */
  sources(stopAfter = Infinity, meanwhile?: () => Promise<void>): ViewSources {
    const { journal, snapshots, databases } = this.ports;
    const { broker } = this;
    return {
      agents: { journal, snapshots, databases },
      changes: {
        streams: async () => [{ created: this.created, end: this.end }],
        between: async function* (_group, { fromSeq, toSeq }) {
          let left = stopAfter;
          const entries = broker.journal.between(fromSeq, toSeq);
          await meanwhile?.();
          for (const { id, event } of entries) {
            if (left-- <= 0) throw new Killed();
            yield { id, ...event };
          }
        },
      },
    };
  }

  /** One event with one turn. */
  async turn(id: AgentId, change: Change = {}, more: Partial<JournalHead> = {}): Promise<Sequence> {
    const live = this.of(id);
    const text = change.state === undefined ? live.state : JSON.stringify(change.state);
    const turn: TurnRecord = {
      cause: { kind: "request" },
      ...(text === live.state
        ? {}
        : { state: JSON.parse(diffState(live.state, text, true)) as never }),
      ...(change.error === undefined ? {} : { error: change.error }),
    };
    live.state = text;
    const schedules = change.schedule === undefined ? undefined : toggle(live, change.schedule);
    const frozen = live.database.freeze();
    if (frozen !== undefined) live.database.committed();
    live.pages = frozen?.pages ?? live.pages;
    const head = {
      ...(frozen === undefined ? {} : { pages: frozen.pages }),
      ...(schedules === undefined ? {} : { schedules }),
      turns: [turn],
      ...more,
    };
    return this.append(id, head, frozen?.delta);
  }

  claim(id: AgentId): Promise<Sequence> {
    return this.append(id, { kind: "claimed" });
  }

  /** The agent ends itself. */
  async destroy(id: AgentId): Promise<void> {
    this.forget(id);
    await this.append(id, { kind: "destroyed", turns: [{ cause: { kind: "rpc" } }] });
  }

  async erase(id: AgentId): Promise<void> {
    if (this.broker.journal.last(id) === undefined) return;
    this.forget(id);
    const end = await this.append(id, { kind: "destroyed", after: undefined as never });
    this.broker.journal.purge(id, end);
    const bases = await this.ports.snapshots.bases(id);
    if (bases !== undefined) await this.ports.snapshots.removeBases(id, bases.revision);
  }

  /** Retention trims all but the last `events`. */
  async trim(id: AgentId, events: number): Promise<void> {
    const [first, ...rest] = this.broker.journal.eventsOf(id);
    if (first === undefined || bareEnd(this.broker.journal.last(id)!) !== undefined) return;
    await this.time.advance(LONG_MS);
    await trimAgent(id, this.ports, {
      limits: { events },
      first: first.seq,
      events: rest.length + 1,
    });
  }

  /** What the view has to say of each agent now or at a time. Rejects with `HistoryTrimmed`. */
  async rows(atTimeMs?: number): Promise<ReadonlyArray<Record<string, unknown>>> {
    const rows: Record<string, unknown>[] = [];
    const then = atTimeMs === undefined ? {} : { atTimeMs };
    for (const { id } of this.broker.journal.entries()) {
      const { image, database } = await rebuildAgent(id, { ...this.sources().agents, ...then });
      const schedules = new ScheduleTable(database).all().map(toSchedule);
      database.close();
      const isEmpty = image.state === undefined && image.pages === 0;
      if (image.seq === image.life && isEmpty) continue;
      rows.push({
        class: id.class,
        name: id.name,
        seq: image.seq,
        time: new Date(image.timeMs).toISOString(),
        size: image.pages * 4096 + Buffer.byteLength(image.state ?? ""),
        state: image.state ?? null,
        schedules: schedules.map((each) => each.id).toSorted(),
      });
    }
    return rows.toSorted((a, b) => (addressOf(a) < addressOf(b) ? -1 : 1));
  }

  async append(id: AgentId, head: Partial<JournalHead>, delta?: Uint8Array): Promise<Sequence> {
    await this.time.advance(1_000);
    const last = this.broker.journal.last(id)?.seq ?? (0 as Sequence);
    const event = {
      id: `event-${++this.count}`, agent: [id.class, id.name], kind: "turns", host: "h", epoch: 1,
      time: this.time.nowMs(), turns: [], after: last, ...head,
    }; // prettier-ignore
    const given = Object.fromEntries(Object.entries(event).filter(([, v]) => v !== undefined));
    const data = encodeEvent(given as unknown as JournalHead, delta);
    return this.broker.journal.append(id, data, last)!;
  }

  private of(id: AgentId): Live {
    const key = addressKey(id);
    const found = this.live.get(key);
    if (found !== undefined) return found;
    const { database } = this.ports.databases.open(agentId("Live", `${key}/${++this.count}`));
    const made = { state: undefined, database, pages: 0 };
    this.live.set(key, made);
    return made;
  }

  private forget(id: AgentId): void {
    this.live.get(addressKey(id))?.database.close();
    this.live.delete(addressKey(id));
  }
}

/** The process that reads is gone. */
export class Killed extends Error {}

const addressOf = (row: Record<string, unknown>): string => `${String(row["class"])}/${String(row["name"])}`; // prettier-ignore

function toggle({ database }: Live, id: string): NonNullable<JournalHead["schedules"]> {
  const table = new ScheduleTable(database);
  if (table.get(id) !== undefined) {
    database.query("DELETE FROM svc_agents_schedules WHERE id = ?", [id]);
    return { del: [id] };
  }
  table.make();
  database.query(
    "INSERT INTO svc_agents_schedules (id, callback, type, time, due_ms) VALUES (?, 'ring', 'scheduled', 1800000000, 1800000000000)",
    [id],
  );
  return { put: [toSchedule(new ScheduleTable(database).get(id)!)] };
}
