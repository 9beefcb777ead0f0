import { readdirSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Suspects, type SuspectsAgent } from "../../core/input/Suspects.ts";
import { Unbegun } from "../../core/input/Unbegun.ts";
import type { AgentId } from "../../schemas/Address.ts";
import { Endings } from "../../services/watchdog/Endings.ts";
import { tempFolder } from "../kit/tempFolder.ts";

const ID = { class: "Repo", name: "../../etc" } as AgentId;
const KEY = "github:../1";

let temp: ReturnType<typeof tempFolder>;
beforeEach(() => (temp = tempFolder("endings")));
afterEach(() => temp.remove());

describe("recorded exits of processes", () => {
  const folder = (): string => join(temp.path, "endings");

  it("are found by agent and key, from another process", () => {
    new Endings(folder()).note({ ...ID, key: KEY, attempt: 2 }, "it spun");
    expect(new Endings(folder()).of(ID, KEY)).toEqual({ reason: "it spun", attempt: 2 });
    expect(new Endings(folder()).of(ID, "github:2")).toBeUndefined();
  });

  it("stay in their folder, whatever the names are", () => {
    new Endings(folder()).note({ ...ID, key: KEY, attempt: 2 }, "it spun");
    expect(readdirSync(folder())).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)]);
  });

  it("are not recorded without a key, or if the folder can't be created", () => {
    new Endings(folder()).note({ ...ID, attempt: 1 }, "it spun");
    writeFileSync(join(temp.path, "file"), "");
    new Endings(join(temp.path, "file")).note({ ...ID, key: KEY, attempt: 2 }, "it spun");
    expect(readdirSync(temp.path)).toEqual(["file"]);
  });

  it("are forgotten after a day", () => {
    const endings = new Endings(folder());
    endings.note({ ...ID, key: KEY, attempt: 2 }, "old");
    endings.note({ ...ID, key: "new", attempt: 1 }, "new");
    for (const name of readdirSync(folder())) utimesSync(join(folder(), name), 0, 0);
    endings.note({ ...ID, key: "new", attempt: 1 }, "new");
    endings.forgetOld(Date.now());
    expect(endings.of(ID, KEY)).toBeUndefined();
    expect(endings.of(ID, "new")?.reason).toBe("new");
  });

  it("complete the error of an input that has no attempts left", () => {
    new Endings(folder()).note({ ...ID, key: KEY, attempt: 2 }, "it spun");
    const unbegun = new Unbegun(new Endings(folder()));
    expect(unbegun.exhausted(ID, KEY)).toMatch(/the last one did not end: it spun$/);
    expect(unbegun.exhausted(ID, "other")).toMatch(/the last one did not end$/);
  });

  it("count an attempt that left nothing in the journal, until the input is dead", () => {
    const before = new Unbegun(new Endings(folder()));
    expect([before.knowsEndings, before.endedAt(ID, KEY)]).toEqual([false, 0]);
    new Endings(folder()).note({ ...ID, key: KEY, attempt: 2 }, "it spun");
    const unbegun = new Unbegun(new Endings(folder()));
    const agent = { id: ID } as SuspectsAgent;
    const suspects = new Suspects(agent, unbegun);
    expect([suspects.next(KEY, 0), suspects.next(KEY, 5), suspects.next("other", 0)]).toEqual([
      3, 6, 1,
    ]); // prettier-ignore
    suspects.settled(KEY);
    expect(suspects.next(KEY, 0)).toBe(1);
  });
});
