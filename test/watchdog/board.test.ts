import { describe, expect, it } from "vitest";
import { Board, type WatchedTurn } from "../../services/watchdog/Board.ts";
import { HoldMeter, mainThreadWaitedMs } from "../../services/watchdog/HoldMeter.ts";

const TURN = {
  class: "Repo",
  name: "acme/ünïcode",
  turn: "webhook",
  key: "github:1",
  attempt: 2,
  limitMs: 5_000,
};

function enter(board: Board, { turn, key, attempt, limitMs, ...id }: WatchedTurn): void {
  board.enter(id, { kind: turn, attempt, ...(key !== undefined && { id: key }) }, limitMs);
}

describe("the board", () => {
  it("shows another thread the turn that entered last", () => {
    const board = new Board();
    const other = new Board(board.memory);
    expect(other.last).toBeUndefined();
    enter(board, { ...TURN, name: "a longer name than the next one has" });
    enter(board, TURN);
    expect(other.last).toEqual(TURN);
  });

  it("omits a key that a turn does not have", () => {
    const board = new Board();
    const { key: _key, ...turn } = TURN;
    enter(board, turn);
    expect(board.last).toEqual(turn);
  });

  it.each(["request", "connect", "message", "close", "rpc"])(
    "shows no key of a turn that is not repeated (%s): its id is a connection's or a request's",
    (turn) => {
      const board = new Board();
      enter(board, { ...TURN, turn });
      expect(board.last).not.toHaveProperty("key");
    },
  );

  it("shows names and keys that contain NUL as they are", () => {
    const board = new Board();
    const turn = { ...TURN, name: "x\0y", key: "a\0b" };
    enter(board, turn);
    expect(board.last).toEqual(turn);
  });

  it("truncates text that does not fit, and stays readable", () => {
    const board = new Board();
    enter(board, { ...TURN, key: "ü".repeat(10_000) });
    expect(board.last).toMatchObject({ class: "Repo", name: TURN.name, limitMs: 5_000 });
  });
});

describe("the meter of blocked time", () => {
  it("counts from the last beat, and restarts with the next", () => {
    const meter = new HoldMeter(() => 0);
    expect(meter.look(1, 0)).toBe(0);
    expect(meter.look(1, 50)).toBe(50);
    expect(meter.look(1, 100)).toBe(100);
    expect(meter.look(2, 150)).toBe(0);
  });

  it("does not count time in which the watchdog did not run either", () => {
    const meter = new HoldMeter(() => 0);
    meter.look(1, 0);
    expect(meter.look(1, 60_000)).toBeLessThan(1_000);
  });

  it("does not count time in which the thread waited for a processor", () => {
    let waitedMs = 7_000;
    const meter = new HoldMeter(() => waitedMs);
    meter.look(1, 0);
    expect(meter.look(1, 50)).toBe(50);
    waitedMs += 40;
    expect(meter.look(1, 100)).toBe(60);
    // The look before was in the middle of a wait, which the system adds when it is over.
    waitedMs += 60;
    expect(meter.look(1, 150)).toBe(50);
    expect(meter.look(2, 200)).toBe(0);
    waitedMs += 500;
    expect(meter.look(2, 250)).toBe(50);
  });

  it.runIf(process.platform === "linux")("reads from the system how long a thread waited", () => {
    const before = mainThreadWaitedMs();
    expect(before).toBeGreaterThanOrEqual(0);
    expect(mainThreadWaitedMs()).toBeGreaterThanOrEqual(before);
  });
});
