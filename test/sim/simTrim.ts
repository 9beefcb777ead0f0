/**
 * Processes that trim journals in a simulation: `trimAgent` itself, on simulated ports, by two of
 * them that do not know of each other. They die, freeze and begin again at any await; what they
 * remove is kept aside for the checkers.
 */
import { forgetErased, trimAgent } from "../../core/retention/trimAgent.ts";
import { agentId, type AgentId, type Sequence } from "../../schemas/Address.ts";
import type { AgentDatabase, DatabasesShape } from "../../core/database/Databases.ts";
import { openSqliteDatabases } from "../../services/sqlite/sqliteDatabases.ts";
import type { Installation } from "./Installation.ts";
import { Random } from "./rig/Random.ts";
import { DOOMED } from "./simErase.ts";
import { makeArchive, simArchive } from "./simArchive.ts";
import { simPorts, type SimPorts } from "./simPorts.ts";
import { SimProcess } from "./rig/SimProcess.ts";

/** The share of runs with trims; in the others journals are kept whole. */
const RUNS_WITH_TRIMS = 0.4;
/** A step of such a run begins a trim, if one of them is idle. */
const TRIMS = 0.5;
/** The share of such runs with an archive; in the others what is trimmed is gone. */
const RUNS_WITH_ARCHIVE = 0.6;
const FREEZES = 0.1;
/** A trimmer dies in the midst of its work, beside the deaths at named points. */
const DEATHS = 0.06;
const DEATH_MS_MAX = 600;
const FROZEN_MS_MAX = 3_000;
/** Their clock is ahead, by more than what always stays: a run lasts seconds. */
const AHEAD_MS = 3_600_000;
const PLACES = [0, 1] as const;

interface Trimmer {
  readonly process: SimProcess;
  readonly ports: SimPorts;
  busy: boolean;
}

export class Trims {
  private readonly installation: Installation;
  private readonly random: Random;
  private readonly rate: number;
  readonly archives: boolean;
  private readonly agents: ReadonlyArray<AgentId>;
  private readonly trimmers = new Map<number, Trimmer>();
  private count = 0;

  constructor(installation: Installation, agents: ReadonlyArray<AgentId>) {
    this.installation = installation;
    this.agents = [...agents, DOOMED_ID];
    this.random = new Random(installation.seed, "trims");
    this.rate = this.random.chance(RUNS_WITH_TRIMS) ? TRIMS : 0;
    this.archives = this.random.chance(RUNS_WITH_ARCHIVE);
    installation.observed.archives = this.archives;
  }

  act(): void {
    const { random } = this;
    if (!random.chance(this.rate)) return;
    const trimmer = this.at(random.pick(PLACES));
    const id = random.pick(this.agents);
    const keep = random.int(1, 5);
    if (random.chance(FREEZES)) this.freeze(trimmer.process, random.int(1, FROZEN_MS_MAX));
    if (random.chance(DEATHS)) {
      const { process } = trimmer;
      this.installation.time.after(random.int(0, DEATH_MS_MAX), () => process.kill());
      this.installation.weather.bit("trimmer killed");
    }
    if (!trimmer.busy) void this.trim(trimmer, id, keep);
  }

  /** As the next walk does, of an agent that was erased while another one was trimming it. */
  async forgetErased(): Promise<void> {
    if (this.rate === 0) return;
    const { ports } = this.at(0);
    await forgetErased({ ...ports, archive: makeArchive(this.installation) }, DOOMED_ID);
  }

  kill(): void {
    for (const { process } of this.trimmers.values()) process.kill();
  }

  private at(place: number): Trimmer {
    const now = this.trimmers.get(place);
    if (now?.process.alive === true) return now;
    const { installation } = this;
    const process = new SimProcess({
      name: `trimmer-${place}.${++this.count}`,
      seed: installation.seed,
      base: installation.time,
      delayed: installation.weather.rates.delayed,
      onPoint: (point, at) => installation.atPoint(point, at),
    });
    const trimmer = { process, ports: simPorts(installation, process), busy: false };
    this.trimmers.set(place, trimmer);
    return trimmer;
  }

  private freeze(process: SimProcess, ms: number): void {
    process.freeze();
    this.installation.weather.bit("trimmer frozen");
    this.installation.time.after(ms, () => process.thaw());
  }

  private async trim(trimmer: Trimmer, id: AgentId, keep: number): Promise<void> {
    const { weather, broker } = this.installation;
    const { process, ports } = trimmer;
    trimmer.busy = true;
    const { databases, close } = await openSqliteDatabases({ folder: undefined });
    const sources = {
      ...ports,
      databases: weather.bug?.basesLag === true ? laggingDatabases(databases) : databases,
      time: { nowMs: () => process.time.nowMs() + AHEAD_MS },
      ...(this.archives && { archive: simArchive(this.installation, process, ports.ask) }),
    };
    const events = broker.journal.eventsOf(id);
    const size = { first: events[0]?.seq ?? (0 as Sequence), events: events.length };
    const say = (what: string): void =>
      weather.trace.add(`${process.name} trims ${id.name} to ${keep}: ${what}`);
    try {
      const { _tag } = await trimAgent(id, sources, { limits: { events: keep }, ...size });
      say(_tag);
      weather.bit(`trim: ${_tag.toLowerCase()}`);
    } catch (error) {
      say(String(error));
      weather.bit("trim failed");
    } finally {
      trimmer.busy = false;
      close();
    }
  }
}

const DOOMED_ID = agentId("Ledger", DOOMED);

/** A planted bug: the last event's pages are missing in what is taken for the image after it. */
const laggingDatabases = (databases: DatabasesShape): DatabasesShape => ({
  ...databases,
  open: (id) => {
    const opened = databases.open(id);
    const { database } = opened;
    let image = database.image();
    const lagging: AgentDatabase = Object.create(database, {
      apply: {
        value: (delta: Uint8Array) => {
          image = database.image();
          database.apply(delta);
        },
      },
      image: { value: () => image },
      restore: {
        value: (from: Uint8Array) => {
          database.restore(from);
          image = from;
        },
      },
      close: { value: () => database.close() },
    }) as AgentDatabase;
    return { ...opened, database: lagging };
  },
});
