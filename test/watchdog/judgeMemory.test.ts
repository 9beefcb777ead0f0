import { describe, expect, it } from "vitest";
import { judgeMemory, type MemorySeen } from "../../services/watchdog/judgeMemory.ts";

const ROOM: MemorySeen = {
  heapMb: 100, beatRssMb: 300, rssMb: 300, heapLimitMb: 1_000, rssMaxMb: 2_000, held: false,
  fullForMs: 0,
}; // prettier-ignore
const over = (seen: Partial<MemorySeen>): boolean => judgeMemory({ ...ROOM, ...seen }).over;

describe("when the memory of a process is nearly full", () => {
  it("not while there is room, however long", () => {
    expect(judgeMemory(ROOM).full).toBe(false);
    expect(over({ held: true, fullForMs: 60_000 })).toBe(false);
  });

  it("a full heap may be garbage: it has to stay full, unless the thread is held", () => {
    expect(over({ heapMb: 900 })).toBe(false);
    expect(over({ heapMb: 900, fullForMs: 1_000 })).toBe(true);
    expect(over({ heapMb: 899, fullForMs: 1_000 })).toBe(false);
    expect(over({ heapMb: 900, held: true })).toBe(true);
  });

  it("what a held process has grown by may all be heap", () => {
    expect(over({ held: true, rssMb: 1_099 })).toBe(false);
    expect(over({ held: true, rssMb: 1_100 })).toBe(true);
    // What it has returned to the system is no heap.
    expect(over({ held: true, heapMb: 899, rssMb: 200 })).toBe(false);
  });

  it("the whole process has a limit, too, which buffers reach", () => {
    expect(over({ beatRssMb: 2_000, rssMb: 2_000, held: true })).toBe(true);
    const { text } = judgeMemory({ ...ROOM, beatRssMb: 2_100, rssMb: 2_100 });
    expect(text).toBe("it had 2100 of 2000 MB");
    expect(judgeMemory({ ...ROOM, heapMb: 950 }).text).toBe("its heap had 950 of 1000 MB");
  });

  it("a process whose size can't be read has no files left: that has to last, held or not", () => {
    const none = { rssMb: undefined, held: true };
    expect([over(none), over({ ...none, fullForMs: 1_000 })]).toEqual([false, true]);
  });
});
