/**
 * What a host has stored itself, passed to the view of its queries (`core/query/OwnEvents`,
 * `core/query/KnownChanges`): wherever an event comes from, the view reads what is stored.
 */
import fc from "../kit/property.ts";
import { beforeEach, describe, expect, it } from "vitest";
import { KnownChanges } from "../../core/query/KnownChanges.ts";
import { OwnEvents } from "../../core/query/OwnEvents.ts";
import { View } from "../../core/query/View.ts";
import { addressKey, agentId } from "../../schemas/Address.ts";
import type { BackupEntry } from "../../schemas/BackupFile.ts";
import { Fleet } from "./Fleet.ts";

const AGENTS = [agentId("Shop", "one"), agentId("Shop", "a/b"), agentId("Customer", "ann")];
const READ = { rowsMax: 100, timeMsMax: 10_000 };

let fleet: Fleet;
let asked: Array<readonly [fromSeq: number, toSeq: number]>;
let own: OwnEvents;
let known: KnownChanges;
beforeEach(() => open());

async function open(bytesMax?: number): Promise<void> {
  fleet = await Fleet.open();
  asked = [];
  own = new OwnEvents(bytesMax);
  const { changes } = fleet.sources();
  known = new KnownChanges({
    streams: changes.streams,
    between: (group, range) => {
      asked.push([range.fromSeq, range.toSeq]);
      return changes.between(group, range);
    },
    groupOf: () => 0,
  });
}

/** Writes an event, which the host has stored or another one has. */
async function write(n: number, isOwn: boolean): Promise<void> {
  const id = AGENTS[n % AGENTS.length]!;
  await fleet.turn(id, { state: { n } });
  const event = fleet.broker.journal.last(id)!;
  if (isOwn) own.add(id, event, event.data);
}

const pass = (): void => known.add(own.take());

async function read(fromSeq: number, toSeq = fleet.end): Promise<ReadonlyArray<string>> {
  await known.streams();
  const found: string[] = [];
  for await (const entry of known.between(0, { fromSeq, toSeq })) found.push(textOf(entry));
  return found;
}

const textOf = ({ id, seq, data }: Omit<BackupEntry, "storedMs">): string =>
  `${seq} ${addressKey(id)} ${Buffer.from(data).toString("latin1")}`;

const stored = (fromSeq: number, toSeq = fleet.end): ReadonlyArray<string> =>
  fleet.broker.journal.between(fromSeq, toSeq).map(({ id, event }) => textOf({ id, ...event }));

describe("events that the host has stored itself", () => {
  it("are read as stored, once and in order, whichever of them others have written", async () => {
    const written = fc.array(fc.constantFrom("own", "own", "own", "other", "pass", "read"), { maxLength: 60 }); // prettier-ignore
    await fc.assert(
      fc.asyncProperty(written, async (acts) => {
        await open();
        await known.streams();
        let next = 1;
        for (const [n, act] of [...acts, "read"].entries()) {
          if (act === "pass") pass();
          else if (act !== "read") await write(n, act === "own");
          else if (fleet.end >= next) {
            expect(await read(next)).toEqual(stored(next));
            next = fleet.end + 1;
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  it("are not asked of the broker, but only what is missing", async () => {
    await known.streams();
    for (let n = 0; n < 120; n++) await write(n, n !== 50 && n !== 119);
    pass();
    expect(await read(1)).toEqual(stored(1));
    expect(asked).toEqual([
      [51, 51],
      [120, 120],
    ]);
  });

  it("are asked of the broker with the others, in one piece, where those are many", async () => {
    await known.streams();
    for (let n = 0; n < 20; n++) await write(n, n % 2 === 0);
    pass();
    expect(await read(1)).toEqual(stored(1));
    expect(asked).toEqual([[1, 20]]);
  });

  it("past the bound are left to the broker until the next question", async () => {
    await write(0, false);
    const bytes = fleet.broker.journal.last(AGENTS[0]!)!.data.length;
    await open(40 * (bytes + 10));
    await known.streams();
    for (let n = 0; n < 60; n++) await write(n, true);
    pass();
    const taken = fleet.end;
    expect(await read(1)).toEqual(stored(1));
    expect(asked).toEqual([[expect.toSatisfy((from: number) => from > 33 && from < 60), 60]]);
    asked = [];
    await write(60, true);
    for (let n = 61; n < 90; n++) await write(n, true);
    pass();
    expect(await read(taken + 1)).toEqual(stored(taken + 1));
    expect(asked).toEqual([]);
  });

  it("of streams that were replaced since are forgotten", async () => {
    await known.streams();
    for (let n = 0; n < 40; n++) await write(n, true);
    pass();
    fleet.created = "2026-02-02T00:00:00Z";
    expect(await read(1)).toEqual(stored(1));
    expect(asked).toEqual([[1, 40]]);
  });

  it("of an agent that was erased since leave no row", async () => {
    const { databases, journal, snapshots } = fleet.ports;
    const view = new View(databases, "agents", { kept: false });
    const sources = { changes: known, agents: { databases, journal, snapshots } };
    await view.catchUp(sources);
    for (let n = 0; n < 40; n++) await write(n, true);
    pass();
    await fleet.erase(AGENTS[1]!);
    await view.catchUp(sources);
    const { rows } = view.read("SELECT class, name, seq FROM agents ORDER BY 1, 2", READ);
    expect(rows).toEqual([
      ["Customer", "ann", 39],
      ["Shop", "one", 40],
    ]);
    view.close();
  });
});
