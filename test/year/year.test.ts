/** A small `npm run year`: what the broker holds is flat, and the history is as recorded. */
import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ArchiveShape } from "../../core/retention/Archive.ts";
import { FolderStore } from "../../services/archive/FolderStore.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { simulateYear, type YearOptions } from "./Year.ts";

let folder: ReturnType<typeof tempFolder>;
beforeEach(() => {
  folder = tempFolder("year");
});
afterEach(() => folder.remove());

const small = (): YearOptions => ({
  agents: 4,
  turns: 105,
  days: 105,
  seed: 1,
  store: new FolderStore(folder.path, randomUUID),
});

test("the broker is as large as in its third month, and all history reads as recorded", async () => {
  const options = small();
  const report = await simulateYear(options);
  expect(report.wrong).toEqual([]);
  // Some 30 of 105 days stay.
  expect(report.archived).toBeGreaterThan(options.agents * options.turns * 0.6);
  // The host, and the process that trims at more than one of its steps.
  expect(report.kills.get("host")).toBeGreaterThan(0);
  expect(report.kills.size).toBeGreaterThan(2);
});

test("the growth of an installation that keeps everything is detected", async () => {
  const { wrong } = await simulateYear({ ...small(), limits: "all" });
  expect(wrong.join()).toMatch(/^the broker held \d+ bytes in the third month and \d+ later$/);
});

test("an archive that changes one event, or loses a part, is detected", async () => {
  const wrongOf = async (reading: (read: ArchiveShape["read"]) => ArchiveShape["read"]) => {
    const spoil: YearOptions["spoil"] = ({ read }) => ({ read: reading(read) });
    return (await simulateYear({ ...small(), turns: 45, days: 45, spoil })).wrong.join();
  };
  const late = await wrongOf((read) => async (id, place) => {
    const part = await read(id, place);
    const events = part.events.map((event, n) =>
      n === 2 && id.name === "diary-1" ? { ...event, storedMs: event.storedMs + 1 } : event,
    );
    return { ...part, events };
  });
  const short = await wrongOf((read) => async (id, place) => {
    const part = await read(id, place);
    return id.name === "diary-2" ? { ...part, events: part.events.slice(1) } : part;
  });
  expect(late).toMatch(/^diary-1: .*read otherwise$/);
  expect(short).toMatch(/^diary-2/);
});
