import { describe, expect, it } from "vitest";
import { judgeMemory, type MemorySeen } from "../../services/watchdog/judgeMemory.ts";

const ROOM: MemorySeen = {
  heapMb: 100, beatRssMb: 300, rssMb: 300, heapLimitMb: 1_000, rssMaxMb: 2_000, held: false,
  fullForMs: 0,
}; // prettier-ignore
const over = (seen: Partial<MemorySeen>): boolean => judgeMemory({ ...ROOM, ...seen }).over;

describe("a process is ended for its memory", () => {
  it("not while there is room, however long", () => {
    expect(judgeMemory(ROOM).full).toBe(false);
    expect(over({ held: true, fullForMs: 60_000 })).toBe(false);
  });

  it("when its heap stays full, as it may be garbage, or at once if the thread is blocked", () => {
    expect(over({ heapMb: 900 })).toBe(false);
    expect(over({ heapMb: 900, fullForMs: 1_000 })).toBe(true);
    expect(over({ heapMb: 899, fullForMs: 1_000 })).toBe(false);
    expect(over({ heapMb: 900, held: true })).toBe(true);
  });

  it("when its growth while blocked may fill the heap", () => {
    expect(over({ held: true, rssMb: 1_099 })).toBe(false);
    expect(over({ held: true, rssMb: 1_100 })).toBe(true);
    // What it has returned to the system is no heap.
    expect(over({ held: true, heapMb: 899, rssMb: 200 })).toBe(false);
  });

  it("when the whole process reaches its limit, too, as with buffers", () => {
    expect(over({ beatRssMb: 2_000, rssMb: 2_000, held: true })).toBe(true);
    const { text } = judgeMemory({ ...ROOM, beatRssMb: 2_100, rssMb: 2_100 });
    expect(text).toBe("it had 2100 of 2000 MB");
    expect(judgeMemory({ ...ROOM, heapMb: 950 }).text).toBe("its heap had 950 of 1000 MB");
  });

  it("when its size can't be read for some time, blocked or not, as it has no files left", () => {
    const none = { rssMb: undefined, held: true };
    expect([over(none), over({ ...none, fullForMs: 1_000 })]).toEqual([false, true]);
  });
});
