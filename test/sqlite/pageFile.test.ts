/** The page file against whole images, copied: with writes that SQLite would rarely make. */
import fc from "../kit/property.ts";
import { afterAll, expect, it } from "vitest";
import { PageDeltaWriter } from "../../schemas/PageDelta.ts";
import { applyPageDelta } from "../kit/pages.ts";
import { CacheFile } from "../../services/sqlite/CacheFile.ts";
import { OpenFiles } from "../../services/sqlite/OpenFiles.ts";
import { PageFile } from "../../services/sqlite/PageFile.ts";
import { PageImage } from "../../services/sqlite/PageImage.ts";
import { PAGE_SIZE, PagePool } from "../../services/sqlite/PagePool.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { REPO } from "./kit.ts";

const folder = tempFolder("pages");
const files = new OpenFiles();
afterAll(() => {
  files.closeAll();
  folder.remove();
});

type Act =
  | { readonly act: "write"; readonly at: number; readonly length: number; readonly byte: number }
  | { readonly act: "page"; readonly page: number; readonly byte: number }
  | { readonly act: "truncate"; readonly pages: number }
  | { readonly act: "begin" | "keep" | "undo" | "freeze" | "committed" };

const PAGES = 24;
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant("write" as const),
      at: fc.nat(PAGES * PAGE_SIZE),
      length: fc.integer({ min: 1, max: 9000 }),
      byte: fc.nat(3),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      act: fc.constant("page" as const),
      page: fc.integer({ min: 1, max: PAGES }),
      byte: fc.nat(3),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ act: fc.constant("truncate" as const), pages: fc.nat(PAGES) }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      act: fc.constantFrom("begin", "keep", "undo", "freeze", "committed", "committed"),
    }),
  },
);

/** `image` with `bytes` at `at`, longer where that is needed, in whole pages. */
function written(image: Uint8Array, at: number, bytes: Uint8Array): Uint8Array {
  const end = Math.ceil((at + bytes.length) / PAGE_SIZE) * PAGE_SIZE;
  const next = new Uint8Array(Math.max(image.length, end));
  next.set(image);
  next.set(bytes, at);
  return next;
}

/** The same acts on both; they are compared after each. */
class Pair {
  readonly pool = new PagePool();
  private readonly file: PageFile;
  private now: Uint8Array = new Uint8Array(0);
  private before: Uint8Array | undefined;
  private inFlight: { readonly image: Uint8Array; readonly delta: Uint8Array } | undefined;
  private committed: Uint8Array = new Uint8Array(0);

  constructor(cache: CacheFile | undefined) {
    const image = new PageImage({
      id: REPO,
      pool: this.pool,
      file: cache,
      residentBytesMax: 6 * PAGE_SIZE,
    });
    this.file = new PageFile(image, this.pool, new PageDeltaWriter(PAGE_SIZE));
  }

  do(what: Act): void {
    switch (what.act) {
      case "write":
        this.write(what.at, new Uint8Array(what.length).fill(what.byte));
        break;
      case "page":
        this.write((what.page - 1) * PAGE_SIZE, new Uint8Array(PAGE_SIZE).fill(what.byte));
        break;
      case "truncate":
        // Never longer: SQLite does not, and a file grows by writes.
        if (what.pages * PAGE_SIZE < this.now.length) {
          this.file.truncate(what.pages * PAGE_SIZE);
          this.now = this.now.slice(0, what.pages * PAGE_SIZE);
        }
        break;
      case "begin":
        if (this.before === undefined) {
          this.file.beginTransaction();
          this.before = this.now;
        }
        break;
      case "keep":
      case "undo":
        if (this.before !== undefined) {
          this.file.endTransaction(what.act === "keep");
          if (what.act === "undo") this.now = this.before;
          this.before = undefined;
        }
        break;
      case "freeze":
        this.freeze();
        break;
      case "committed":
        this.commit();
    }
    this.compare();
  }

  end(): void {
    this.file.abandon();
    this.file.image.drop();
    expect(this.pool.used).toBe(0);
  }

  private write(at: number, bytes: Uint8Array): void {
    this.file.write(bytes, 0, bytes.length, at);
    this.now = written(this.now, at, bytes);
  }

  private freeze(): void {
    if (this.inFlight !== undefined) return;
    const image = this.before ?? this.now;
    const frozen = this.file.freeze();
    if (frozen === undefined) expect(Buffer.compare(image, this.committed)).toBe(0);
    else {
      expect(Buffer.compare(applyPageDelta(this.committed, frozen.delta), image)).toBe(0);
      this.inFlight = { image, delta: frozen.delta };
    }
  }

  private commit(): void {
    if (this.inFlight === undefined) return;
    this.file.committed();
    this.committed = this.inFlight.image;
    this.inFlight = undefined;
  }

  private compare(): void {
    const read = new Uint8Array(this.now.length + 10).fill(77);
    expect(this.file.read(read, 0, read.length, 0)).toBe(false);
    expect(Buffer.compare(read.subarray(0, this.now.length), this.now)).toBe(0);
    expect(read.subarray(this.now.length).every((byte) => byte === 0)).toBe(true);
    expect(this.file.count * PAGE_SIZE).toBe(this.now.length);
    expect(Buffer.compare(this.file.image.copy(), this.committed)).toBe(0);
  }
}

it.each(["memory", "memory and a file"])(
  "a page file reads as if every image were whole, in %s",
  (where) => {
    fc.assert(
      fc.property(fc.array(act, { minLength: 5, maxLength: 60, size: "max" }), (acts) => {
        const cache =
          where === "memory" ? undefined : new CacheFile(REPO, `${folder.path}/pages`, files);
        const pair = new Pair(cache);
        for (const one of acts) pair.do(one);
        pair.end();
        cache?.remove();
      }),
      { numRuns: 400 },
    );
  },
);

it("pages that a transaction truncated and restored without writing read as zeros", () => {
  const pair = new Pair(undefined);
  const page = (number: number): Act => ({ act: "page", page: number, byte: 1 });
  for (const one of [
    page(4),
    { act: "begin" },
    { act: "truncate", pages: 0 },
    page(5),
    { act: "truncate", pages: 4 },
    { act: "keep" },
  ] as const)
    // prettier-ignore
    pair.do(one);
  pair.end();
});

it("memory of a large transaction is freed", () => {
  const pool = new PagePool();
  const slots = Array.from({ length: 1000 }, () => pool.take());
  expect(new Set(slots).size).toBe(1000);
  expect(pool.unused).toBe(24); // 16 slabs of 64
  for (const slot of slots) pool.free(slot);
  expect([pool.used, pool.unused]).toEqual([0, 64]);
  // One slab stays for the next page; the slots of dropped ones are not given out twice.
  const again = Array.from({ length: 1000 }, () => pool.take());
  expect(new Set(again).size).toBe(1000);
});
