/** `agents erase` in a simulation, by an operator's connection: nothing may be left (I11). */
import { CallClient } from "../../core/call/CallClient.ts";
import { addressKey, type AgentId, type Sequence } from "../../schemas/Address.ts";
import { erase } from "../../services/cli/commands/erase.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import type { Terminal } from "../../services/cli/terminal/Terminal.ts";
import { tellErased } from "../../services/wiring/tellErased.ts";
import { makeMemoryBlobs } from "../../services/memory/MemoryBlobs.ts";
import type { MemoryBroker } from "../../services/memory/MemoryBroker.ts";
import { makeMemoryBus } from "../../services/memory/MemoryBus.ts";
import { makeMemoryJournal } from "../../services/memory/MemoryJournal.ts";
import { makeMemoryLeases } from "../../services/memory/MemoryLeases.ts";
import { makeMemorySnapshots } from "../../services/memory/MemorySnapshots.ts";
import { makeArchive } from "./simArchive.ts";
import type { Installation } from "./Installation.ts";

/** Whom the operator erases, in runs that do. */
export const DOOMED = "doomed";

export class Operator {
  private readonly installation: Installation;
  private readonly ports: ErasePorts;
  /** One at a time. */
  private erasing = false;

  constructor(installation: Installation) {
    this.installation = installation;
    this.ports = portsOf(installation);
  }

  /** True: the command says that nothing is left, and every host has said so too. Never rejects. */
  async erase(): Promise<boolean> {
    const { weather, time } = this.installation;
    if (this.erasing) return false;
    this.erasing = true;
    const said: string[] = [];
    const terminal: Terminal = {
      out: (line) => said.push(line),
      err: (line) => said.push(line),
      interactive: false,
      env: {},
      cwd: "/",
    };
    const what = { className: "Ledger", name: DOOMED, yes: true, whileAway: false, json: false };
    try {
      await erase(this.ports as unknown as ReadPorts, terminal, time, what);
    } catch (error) {
      said.push((error as Error).message);
      const nothing = (error as Error).message.startsWith("Nothing is stored about");
      weather.trace.add(`operator hears ${said.join(" | ")}`);
      weather.bit(nothing ? "nothing to erase" : "erase failed");
      return nothing;
    } finally {
      this.erasing = false;
    }
    weather.trace.add(`operator hears ${said.join(" | ")}`);
    weather.bit("erased");
    return !said.some((line) => line.startsWith("No answer from"));
  }
}

/** What the command uses of its ports. */
type ErasePorts = Pick<
  ReadPorts,
  | "journal"
  | "snapshots"
  | "calls"
  | "leases"
  | "purgeInputs"
  | "purge"
  | "archive"
  | "awayCopies"
  | "tellErased"
>;

function portsOf(installation: Installation): ErasePorts {
  const { broker } = installation;
  const wire = broker.connect("operator");
  const bus = makeMemoryBus(wire);
  const { time, subjects, shards } = broker;
  const purgeInputs: ErasePorts["purgeInputs"] = async (id) => {
    await wire.operation("purgeInputs", addressKey(id));
    return { inputs: broker.inbox.purge(id), timers: disarmAll(broker, id) };
  };
  return {
    journal: makeMemoryJournal(wire),
    snapshots: makeMemorySnapshots(wire),
    archive: makeArchive(installation),
    calls: new CallClient({ bus, blobs: makeMemoryBlobs(wire), time, subjects, shards }),
    leases: makeMemoryLeases(wire),
    purgeInputs,
    purge: async (id, { keepEventsFrom }) => {
      const before = await purgeInputs(id);
      installation.observed.trimmed.delete(addressKey(id));
      return { ...before, ...purge(broker, id, keepEventsFrom), blobs: 0, doneInputsGone: true };
    },
    awayCopies: async () => [],
    tellErased: (id, hosts) =>
      tellErased(
        { bus, time, subjects, newInbox: () => `_INBOX.operator.${time.id()}` },
        id,
        hosts,
      ),
  };
}

function disarmAll({ timers }: MemoryBroker, id: AgentId): number {
  let count = 0;
  for (const [key, cancel] of timers)
    if (key.startsWith(`${addressKey(id)}/`)) {
      cancel();
      timers.delete(key);
      count++;
    }
  return count;
}

function purge(broker: MemoryBroker, id: AgentId, keepEventsFrom: Sequence) {
  const { journal, snapshots, bases, deadLetters } = broker;
  const key = addressKey(id);
  const kept = snapshots.get(key)?.length ?? 0;
  snapshots.delete(key);
  const letters = deadLetters.all().filter((letter) => addressKey(letter.id) === key);
  for (const { seq } of letters) deadLetters.remove(seq);
  return {
    events: journal.purge(id, keepEventsFrom),
    snapshots: kept + bases.remove(id),
    deadLetters: letters.length,
  };
}
