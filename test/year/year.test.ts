/**
 * A small year: what the broker holds is flat after its first months, and the whole history is read
 * as it was recorded. `npm run year` is the same at any size. What the checks are worth: each finds
 * the fault that is planted for it.
 */
import { afterEach, beforeEach, expect, test } from "vitest";
import type { ArchiveShape } from "../../core/retention/Archive.ts";
import { FolderStore } from "../../services/archive/FolderStore.ts";
import { SegmentArchive } from "../../services/archive/SegmentArchive.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { simulateYear, type YearOptions } from "./Year.ts";

let folder: ReturnType<typeof tempFolder>;
beforeEach(() => {
  folder = tempFolder("year");
});
afterEach(() => folder.remove());

const inFolder: YearOptions["archive"] = (time) =>
  new SegmentArchive({ store: new FolderStore(folder.path, time.id), namespace: "year", time });
const SMALL = { agents: 4, turns: 105, days: 105, seed: 1, archive: inFolder };

test("the broker stays as large as in its third month, and all of history is as it was recorded", async () => {
  const report = await simulateYear(SMALL);
  expect(report.wrong).toEqual([]);
  // Some 30 of 105 days stay.
  expect(report.archived).toBeGreaterThan(SMALL.agents * SMALL.turns * 0.6);
  expect(report.kills).toBeGreaterThan(3);
});

test("an installation that keeps everything is found to grow", async () => {
  const { wrong } = await simulateYear({ ...SMALL, limits: "all" });
  expect(wrong.join()).toMatch(/^the broker held \d+ bytes in the third month and \d+ later$/);
});

test("an archive that changes one event, or loses a part, is found", async () => {
  const changing =
    (change: (read: ArchiveShape["read"]) => ArchiveShape["read"]): YearOptions["archive"] =>
    (time) => {
      const archive = inFolder(time) as SegmentArchive;
      return Object.assign(Object.create(archive) as ArchiveShape, { read: change(archive.read) });
    };
  const late = changing((read) => async (id, place) => {
    const part = await read(id, place);
    const events = part.events.map((event, n) =>
      n === 2 && id.name === "diary-1" ? { ...event, storedMs: event.storedMs + 1 } : event,
    );
    return { ...part, events };
  });
  const short = changing((read) => async (id, place) => {
    const part = await read(id, place);
    return id.name === "diary-2" ? { ...part, events: part.events.slice(1) } : part;
  });
  const small = { ...SMALL, turns: 45, days: 45 };
  expect((await simulateYear({ ...small, archive: late })).wrong.join()).toMatch(/^diary-1: .*read otherwise$/); // prettier-ignore
  expect((await simulateYear({ ...small, archive: short })).wrong.join()).toMatch(/^diary-2/);
});
