/** One agent in a memory broker whose events tests write by hand, with real pages of SQLite. */
import { endLife } from "../../core/journal/endLife.ts";
import { rebuildAgent, type RebuildSources } from "../../core/journal/rebuildAgent.ts";
import { trimAgent, type TrimOptions, type TrimPorts } from "../../core/retention/trimAgent.ts";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";
import { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";

export const ID = agentId("Book", "one");
/** From one event to the next. */
export const STEP_MS = 60_000;

export class Journaled {
  readonly time = new VirtualTime({ seed: 1 });
  readonly broker = new MemoryBroker({ time: this.time });
  readonly ports: TrimPorts;
  private readonly live;
  private n = 0;

  private constructor(opened: Awaited<ReturnType<typeof openSqliteDatabases>>) {
    const wire = this.broker.connect();
    this.ports = {
      journal: makeMemoryJournal(wire),
      snapshots: makeMemorySnapshots(wire),
      databases: opened.databases,
      time: this.time,
    };
    this.live = opened.databases.open(agentId("Live", "one")).database;
    this.live.query("CREATE TABLE rows (n INTEGER PRIMARY KEY, text TEXT)", []);
  }

  static async open(): Promise<Journaled> {
    return new Journaled(await openSqliteDatabases({ folder: undefined }));
  }

  /** Appends events a minute apart; each sets the state, adds a row and is done with an input. */
  async write(count: number, more: Partial<JournalHead> = {}): Promise<Sequence[]> {
    const seqs: Sequence[] = [];
    for (let k = 0; k < count; k++) {
      await this.time.advance(STEP_MS);
      const n = ++this.n;
      this.live.query("INSERT INTO rows VALUES (?, ?)", [n, `row ${n} ${"x".repeat(50)}`]);
      const frozen = this.live.freeze()!;
      this.live.committed();
      const last = this.broker.journal.last(ID)?.seq ?? (0 as Sequence);
      const head: JournalHead = {
        id: `event-${n}`, agent: [ID.class, ID.name], kind: "turns", host: "h", epoch: 1, time: this.time.nowMs(),
        turns: [{ cause: { kind: "webhook", id: `key-${n}` }, state: { set: { n } }, done: [`key-${n}`] }],
        pages: frozen.pages, after: last, ...more,
      }; // prettier-ignore
      const given = Object.fromEntries(Object.entries(head).filter(([, v]) => v !== undefined));
      seqs.push(
        this.broker.journal.append(ID, encodeEvent(given as JournalHead, frozen.delta), last)!,
      );
    }
    return seqs;
  }

  /** Ends its life: only the event of its end is left. */
  async erase(): Promise<void> {
    const { journal } = this.ports;
    const signal = AbortSignal.timeout(1_000);
    const time = { id: () => `end-${++this.n}`, nowMs: this.time.nowMs };
    const end = await endLife(ID, { journal, time, host: "erase", epoch: undefined, signal });
    this.broker.journal.purge(ID, end);
  }

  trim(limits: TrimOptions["limits"], ports: Partial<TrimPorts> = {}) {
    const events = this.broker.journal.eventsOf(ID);
    const size = { first: events[0]?.seq ?? (0 as Sequence), events: events.length };
    return trimAgent(ID, { ...this.ports, ...ports }, { limits, ...size });
  }

  /** Everything of the agent, as bytes. */
  async rebuilt(over: Partial<RebuildSources> = {}): Promise<Buffer> {
    const { image, database } = await rebuildAgent(ID, { ...this.ports, ...over });
    const bytes = Buffer.from(image.encode(database.image()));
    database.close();
    return bytes;
  }

  get seqs(): ReadonlyArray<number> {
    return this.broker.journal.eventsOf(ID).map(({ seq }) => seq);
  }
}
