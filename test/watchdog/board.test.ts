import { describe, expect, it } from "vitest";
import { Board } from "../../services/watchdog/Board.ts";
import { HoldMeter } from "../../services/watchdog/HoldMeter.ts";

const TURN = {
  class: "Repo",
  name: "acme/ünïcode",
  turn: "webhook",
  key: "github:1",
  attempt: 2,
  limitMs: 5_000,
};

describe("the board", () => {
  it("shows the other thread the turn that entered last", () => {
    const board = new Board();
    const other = new Board(board.memory);
    expect(other.last).toBeUndefined();
    board.enter({ ...TURN, name: "a longer name than the next one has" });
    board.enter(TURN);
    expect(other.last).toEqual(TURN);
  });

  it("leaves out a key that a turn does not have", () => {
    const board = new Board();
    const { key: _key, ...turn } = TURN;
    board.enter(turn);
    expect(board.last).toEqual(turn);
  });

  it("cuts text that does not fit, and stays readable", () => {
    const board = new Board();
    board.enter({ ...TURN, key: "ü".repeat(10_000) });
    expect(board.last).toMatchObject({ class: "Repo", name: TURN.name, limitMs: 5_000 });
  });
});

describe("the meter of holds", () => {
  it("counts from the last beat, and starts again with the next", () => {
    const meter = new HoldMeter();
    expect(meter.look(1, 0)).toBe(0);
    expect(meter.look(1, 50)).toBe(50);
    expect(meter.look(1, 100)).toBe(100);
    expect(meter.look(2, 150)).toBe(0);
  });

  it("does not count the time in which the watchdog did not run either", () => {
    const meter = new HoldMeter();
    meter.look(1, 0);
    expect(meter.look(1, 60_000)).toBeLessThan(1_000);
  });
});
