/** Requests of an activation to the broker: none under the lease that the agent slept under. */
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { addressKey } from "../../schemas/Address.ts";
import { decodeSnapshot } from "../../schemas/Snapshot.ts";
import { CacheFile } from "../../services/sqlite/CacheFile.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { patch } from "../sim/rig/patch.ts";
import type { Action } from "./Program.ts";
import { ID, ReplayRig } from "./ReplayRig.ts";

let folder: TempFolder;
beforeEach(() => (folder = tempFolder("waking")));
afterEach(() => folder.remove());

const INSERT: ReadonlyArray<Action> = [
  { act: "sql", statement: { do: "table", n: 0 } },
  { act: "sql", statement: { do: "insert", n: 0, rows: 3, bytes: 100 } },
];
const setTo = (value: unknown): ReadonlyArray<Action> => [
  { act: "setState", state: { to: "value", value } },
];

/** Returns the kinds of requests to the broker since the last call. */
function watch(rig: ReplayRig): () => ReadonlyArray<string> {
  let kinds: string[] = [];
  const plain = rig.broker.intercept;
  rig.broker.intercept = (operation) => {
    kinds.push(operation.kind);
    return plain?.(operation);
  };
  return () => kinds.splice(0);
}

const input = (rig: ReplayRig, actions: ReadonlyArray<Action>): Promise<void> =>
  rig.happen({ on: "input", actions, fails: false });

async function asleep(
  rig: ReplayRig,
  actions: ReadonlyArray<Action>,
): Promise<() => ReadonlyArray<string>> {
  await input(rig, actions);
  await rig.rest();
  await rig.happen({ on: "hibernate" });
  expect(rig.counts.hibernations).toBeGreaterThan(0);
  return watch(rig);
}

/** At hibernation one is taken from so many events on. */
const SNAPSHOT_FROM = 32;

test("an agent that does little each time it wakes is snapshotted in time, so that another host replays little", () =>
  ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
    for (let n = 1; n <= SNAPSHOT_FROM + 4; n++) await asleep(rig, setTo(n));
    const [newest] = rig.broker.snapshots.get(addressKey(ID)) ?? [];
    expect(decodeSnapshot(newest!).head.state).toBeGreaterThanOrEqual(SNAPSHOT_FROM - 2);
    // Nothing of the cache's own is in it.
    expect(decodeSnapshot(newest!).head.since).toBeUndefined();
  }));

describe("an agent that wakes", () => {
  test("under the lease that it slept under reads nothing", () =>
    ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
      const asked = await asleep(rig, INSERT);
      await input(rig, setTo("woken"));
      await rig.rest();
      expect(new Set(asked())).toEqual(new Set(["append"]));
      expect(rig.left).toBe(0);
      expect(JSON.parse(rig.live!.stateText!)).toBe("woken");
      expect(rig.live!.database.query("SELECT count(*) FROM t0", []).rows).toEqual([[3]]);
    }));

  test("for the first time ever asks the journal once", () =>
    ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
      const asked = watch(rig);
      await input(rig, setTo("first"));
      await rig.rest();
      expect(asked()).toEqual(["last", "append"]);
    }));

  test("with one event and no file uses that event to find the end of the journal", () =>
    ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
      const asked = await asleep(rig, setTo("first"));
      await input(rig, []);
      await rig.rest();
      expect(asked()).toEqual(["last", "readSnapshots", "append"]);
      expect(JSON.parse(rig.live!.stateText!)).toBe("first");
    }));

  test("without a table reads nothing either on its return", () =>
    ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
      await asleep(rig, setTo("first"));
      const asked = await asleep(rig, setTo("second"));
      await input(rig, setTo("third"));
      await rig.rest();
      expect(new Set(asked())).toEqual(new Set(["append"]));
      expect(JSON.parse(rig.live!.stateText!)).toBe("third");
    }));

  test("under a new lease writes a claim, which validates its file", () =>
    ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
      const asked = await asleep(rig, INSERT);
      await rig.happen({ on: "move" });
      asked();
      await input(rig, setTo("woken"));
      await rig.rest();
      expect(asked()).toEqual(["append", "append"]);
      expect(rig.live!.image.epoch).toBe(2);
      expect(rig.live!.database.query("SELECT count(*) FROM t0", []).rows).toEqual([[3]]);
      expect(rig.counts.refused).toBe(0);
    }));

  test("with a file older than its journal reads the rest, and reports no rival", () =>
    ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
      const asked = await asleep(rig, INSERT);
      await rig.happen({ on: "conflict" });
      await rig.happen({ on: "move" });
      const last = rig.broker.journal.last(ID)!.seq;
      asked();
      await input(rig, setTo("woken"));
      await rig.rest();
      const kinds = asked();
      expect(kinds.filter((kind) => kind === "append")).toHaveLength(3);
      expect(kinds.some((kind) => kind.includes("read"))).toBe(true);
      expect(kinds.some((kind) => kind.includes("snapshot"))).toBe(false);
      expect(rig.live!.image.seq).toBe(last + 2);
      expect(JSON.parse(rig.live!.stateText!)).toBe("woken");
      expect(rig.live!.database.query("SELECT count(*) FROM t0", []).rows).toEqual([[3]]);
      expect(rig.counts.refused).toBe(0);
    }));

  test("whose disk rejected the last file and kept an older one uses the journal", () =>
    ReplayRig.with({ folder: folder.path, seed: 1 }, async (rig) => {
      const asked = await asleep(rig, setTo("first"));
      await asleep(rig, setTo("second"));
      const refuse = (): never => {
        throw Object.assign(new Error("EIO: i/o error"), { code: "EIO" });
      };
      await input(rig, setTo("third"));
      await rig.rest();
      const offs = (["write", "writeMeta", "remove"] as const).map((name) =>
        patch(CacheFile.prototype, name, () => refuse),
      );
      await rig.happen({ on: "hibernate" });
      for (const off of offs) off();
      asked();
      // It writes nothing, so that no append would reveal that its agent is outdated.
      await rig.happen({ on: "call", actions: [] });
      expect(JSON.parse(rig.live!.stateText!)).toBe("third");
      expect(new Set(asked())).toEqual(new Set(["last", "readSnapshots", "read"]));
    }));
});
