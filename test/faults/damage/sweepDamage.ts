/**
 * Damages stored bytes thousands of times, one item at a time, and reads each with the product's
 * own readers (I12). A damaged event stops the rebuild. A damaged snapshot or cache is skipped, and
 * the agent is what its journal says. Damage that does not change the result is counted separately.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { LocalImageCorrupt, type DatabasesShape } from "../../../core/database/Databases.ts";
import { rebuildAgent, type RebuildSources } from "../../../core/journal/rebuildAgent.ts";
import { addressKey, type AgentId } from "../../../schemas/Address.ts";
import { CorruptFrame, UnknownVersion } from "../../../schemas/Frame.ts";
import { decodeSnapshot } from "../../../schemas/Snapshot.ts";
import { joinBytes } from "../../../schemas/joinBytes.ts";
import { readClaimCheck } from "../../../services/nats/layout/claimCheck.ts";
import { blobNameOf, objectStore } from "../../../services/nats/layout/blobStores.ts";
import type { BlobEntry } from "../../../services/nats/NatsBlobs.ts";
import { CACHE_ENDING } from "../../../services/sqlite/CacheFile.ts";
import { cachePath } from "../../../services/sqlite/cachePath.ts";
import { openSqliteDatabases } from "../../../services/sqlite/sqliteDatabases.ts";
import { tempFolder } from "../../kit/tempFolder.ts";
import { Random } from "../../sim/rig/Random.ts";
import { harm } from "./harm.ts";
import { Recorded, type Material, type StoredAt } from "./Material.ts";

/** The result for a damaged item: the reader's error, or `the same` if it is as it was written. */
type Verdict = { readonly is: string } | { readonly wrong: string };

/** One stored item, its agent, and what happens when these bytes replace it. */
interface Target {
  readonly kind: string;
  readonly id: AgentId;
  readonly bytes: Uint8Array;
  readonly read: (damaged: Uint8Array) => Promise<Verdict>;
}

export interface Sweep {
  /** By kind, then by verdict. */
  readonly counts: ReadonlyMap<string, ReadonlyMap<string, number>>;
  readonly violations: ReadonlyArray<string>;
}

/** Returns what was written although it was damaged, because nothing reads those bytes. */
export const HARMLESS = "the same";

export async function sweepDamage(
  material: Material,
  options: { readonly seed: number; readonly times: number },
): Promise<Sweep> {
  const random = new Random(options.seed, "damage");
  const sweeper = await Sweeper.open(material);
  const byKind = grouped(sweeper.targets, ({ kind }) => kind);
  const counts = new Map([...byKind.keys()].map((kind) => [kind, new Map<string, number>()]));
  const violations: string[] = [];
  const kinds = [...byKind.keys()];
  for (let n = 0; n < options.times; n++) {
    const kind = kinds[n % kinds.length]!;
    const target = random.pick(byKind.get(kind)!);
    const { how, data } = harm(target.bytes, random);
    const verdict = await target.read(data);
    const is = "is" in verdict ? verdict.is : "VIOLATION";
    const inner = counts.get(kind)!;
    inner.set(is, (inner.get(is) ?? 0) + 1);
    if ("wrong" in verdict)
      violations.push(`damage ${n}, ${kind} of ${addressKey(target.id)}, ${how}: ${verdict.wrong}`);
  }
  sweeper.close();
  return { counts, violations };
}

interface Picture {
  readonly state: string;
  readonly image: Uint8Array;
}

class Sweeper {
  readonly targets: Target[] = [];
  private readonly material: Material;
  private readonly recorded: Recorded;
  private readonly databases: DatabasesShape;
  private readonly closeDatabases: () => void;
  private readonly folder = tempFolder("damage");
  private readonly truths = new Map<string, Picture>();

  private constructor(material: Material, memory: Awaited<ReturnType<typeof openSqliteDatabases>>) {
    this.material = material;
    this.recorded = new Recorded(material);
    this.databases = memory.databases;
    this.closeDatabases = memory.close;
  }

  static async open(material: Material): Promise<Sweeper> {
    const sweeper = new Sweeper(material, await openSqliteDatabases({ folder: undefined }));
    for (const id of material.ids)
      sweeper.truths.set(addressKey(id), await sweeper.picture(id, sweeper.fromJournal));
    sweeper.addMessages();
    sweeper.addCaches();
    return sweeper;
  }

  close(): void {
    this.closeDatabases();
    this.folder.remove();
  }

  private get fromJournal(): RebuildSources {
    return { journal: this.recorded.journal, databases: this.databases };
  }

  private async picture(id: AgentId, sources: RebuildSources): Promise<Picture> {
    const { state, database } = await rebuildAgent(id, sources);
    try {
      return { state: JSON.stringify(state), image: database.image() };
    } finally {
      database.close();
    }
  }

  private differs(id: AgentId, { state, image }: Picture): string | undefined {
    const truth = this.truths.get(addressKey(id))!;
    if (state !== truth.state) return `its state is ${state}, and was ${truth.state}`;
    return Buffer.compare(image, truth.image) === 0 ? undefined : "its database is another";
  }

  private addMessages(): void {
    const { messages, subjects, ids } = this.material;
    const blobs = objectStore(subjects);
    const idOf = new Map(
      ids.flatMap((id) => [
        [subjects.journal(id), id],
        [subjects.snapshot(id), id],
      ]),
    );
    /** Blobs that a claim in the journal or among the snapshots names, by its entry's subject. */
    const claims = new Map<string, { readonly what: "event" | "snapshot"; readonly id: AgentId }>();
    for (const message of messages) {
      const id = idOf.get(message.subject);
      if (id === undefined) continue;
      const what = message.subject === subjects.journal(id) ? "event" : "snapshot";
      const claim = readClaimCheck(message.data);
      if (claim !== undefined) claims.set(blobs.entryOf(claim.blob), { what, id });
      this.add(claim === undefined ? what : `claim of ${what}`, what, id, message);
    }
    const chunksOf = grouped(messages, ({ subject }) => subject);
    for (const message of messages) {
      const claim = claims.get(message.subject);
      if (claim === undefined) continue;
      const { what, id } = claim;
      this.add(`blob's entry of ${what}`, what, id, message);
      const { nuid } = JSON.parse(Buffer.from(message.data).toString()) as BlobEntry;
      for (const chunk of chunksOf.get(blobs.chunksOf(nuid)) ?? [])
        this.add(`blob of ${what}`, what, id, chunk);
    }
    if (claims.size === 0) throw new Error(`no claims: ${messages.map(({ subject }) => blobNameOf(subject)).join()}`);
  } // prettier-ignore

  private add(kind: string, what: "event" | "snapshot", id: AgentId, message: StoredAt): void {
    const read = async (data: Uint8Array): Promise<Verdict> => {
      this.recorded.damaged = { message, data };
      try {
        return await (what === "event" ? this.readEvents(id) : this.readSnapshots(id));
      } finally {
        this.recorded.damaged = undefined;
      }
    };
    this.targets.push({ kind, id, bytes: message.data, read });
  }

  /** Refused by a tagged error that quarantines the agent; never read as something else. */
  private async readEvents(id: AgentId): Promise<Verdict> {
    try {
      const wrong = this.differs(id, await this.picture(id, this.fromJournal));
      return wrong === undefined ? { is: HARMLESS } : { wrong: `it was believed: ${wrong}` };
    } catch (error) {
      if (error instanceof CorruptFrame || error instanceof UnknownVersion)
        return { is: error._tag };
      return { wrong: `refused as what it is not: ${String(error)}` };
    }
  }

  /** Passed over: the agent is there all the same, and the same. */
  private async readSnapshots(id: AgentId): Promise<Verdict> {
    const { snapshots } = this.recorded;
    try {
      const wrong = this.differs(id, await this.picture(id, { ...this.fromJournal, snapshots }));
      if (wrong !== undefined) return { wrong: `it was believed: ${wrong}` };
      let good = 0;
      for await (const data of snapshots.newestFirst(id)) good += isSnapshot(data) ? 1 : 0;
      const { messages, subjects } = this.material;
      const all = messages.filter(({ subject }) => subject === subjects.snapshot(id)).length;
      return { is: good === all ? HARMLESS : "passed over" };
    } catch (error) {
      return { wrong: `the agent can't be rebuilt: ${String(error)}` };
    }
  }

  private addCaches(): void {
    for (const id of this.material.ids) {
      const file = readFileSync(cachePath(this.material.images, id) + CACHE_ENDING);
      // The file ends with the length of its meta; the pages are before that.
      const from = file.length - 4 - file.readUInt32LE(file.length - 4);
      const [pages, meta] = [file.subarray(0, from), file.subarray(from)];
      const add = (part: string, bytes: Uint8Array, whole: (data: Uint8Array) => Uint8Array[]) => {
        if (bytes.length === 0) return;
        const read = (data: Uint8Array): Promise<Verdict> => this.readCache(id, whole(data));
        this.targets.push({ kind: `cache's ${part}`, id, bytes, read });
      };
      add("pages", pages, (data) => [data, meta]);
      add("meta", meta, (data) => [pages, data]);
    }
  }

  private async readCache(id: AgentId, damaged: ReadonlyArray<Uint8Array>): Promise<Verdict> {
    const folder = this.folder.path;
    const to = cachePath(folder, id);
    mkdirSync(dirname(to), { recursive: true });
    writeFileSync(to + CACHE_ENDING, joinBytes(damaged));
    const { databases, close } = await openSqliteDatabases({ folder });
    const sources = { journal: this.recorded.journal, databases };
    try {
      const { replayed, database, state } = await rebuildAgent(id, sources);
      let is = replayed.events > 0 ? "refused when opened" : HARMLESS;
      let picture: Picture;
      try {
        picture = { state: JSON.stringify(state), image: database.image() };
        database.close();
      } catch (error) {
        // A host then releases the agent and rebuilds it.
        database.close();
        if (!(error instanceof LocalImageCorrupt)) throw error;
        is = "refused when read";
        picture = await this.picture(id, sources);
      }
      const wrong = this.differs(id, picture);
      return wrong === undefined ? { is } : { wrong: `it was believed: ${wrong}` };
    } catch (error) {
      return { wrong: `the agent can't be rebuilt: ${String(error)}` };
    } finally {
      close();
      rmSync(folder, { recursive: true, force: true });
    }
  }
}

function isSnapshot(data: Uint8Array): boolean {
  try {
    decodeSnapshot(data);
    return true;
  } catch {
    return false; // that it is passed over is looked at above
  }
}

function grouped<A>(all: ReadonlyArray<A>, keyOf: (each: A) => string): Map<string, A[]> {
  const groups = new Map<string, A[]>();
  for (const each of all) {
    const group = groups.get(keyOf(each));
    if (group === undefined) groups.set(keyOf(each), [each]);
    else group.push(each);
  }
  return groups;
}
