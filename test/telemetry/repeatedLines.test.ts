/** Many parts of a process log one line at once: it is written once, and a line counts the rest. */
import { expect, test } from "vitest";
import { TEXT, type LogFields } from "../../core/telemetry/Log.ts";
import { AGENT_LINES_MAX, repeatedLines, WINDOW_MS } from "../../core/telemetry/RepeatedLines.ts";

function recorder() {
  const lines: Array<readonly [string, string, LogFields | undefined]> = [];
  const timers: Array<() => void> = [];
  const at = (level: string) => (message: string, fields?: LogFields) =>
    void lines.push([level, message, fields]);
  const log = repeatedLines(
    { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") },
    (ms, f) => {
      expect(ms).toBe(WINDOW_MS);
      timers.push(f);
    },
  );
  /** The windows that are open end. */
  const pass = (): void => {
    for (const f of timers.splice(0)) f();
  };
  return { lines, timers, log, pass };
}

const why = "BrokerUnavailable: the broker is unreachable";

test("64 shards that are lost at once log two lines: the first, and a count of the rest", () => {
  const { lines, timers, log, pass } = recorder();
  for (let shard = 0; shard < 64; shard += 1) log.warn("shard lost", { shard, why });
  expect(lines).toEqual([["warn", "shard lost", { shard: 0, why }]]);
  pass();
  expect(lines[1]).toEqual(["warn", "shard lost", { shard: 63, why, repeated: 63 }]);
  pass();
  expect([lines.length, timers.length]).toEqual([2, 0]);
  log.warn("shard lost", { shard: 1, why });
  expect(lines[2]).toEqual(["warn", "shard lost", { shard: 1, why }]);
});

test("a persistent condition logs one line every ten seconds", () => {
  const { lines, log, pass } = recorder();
  for (let window = 0; window < 6; window += 1) {
    for (let n = 0; n < 100; n += 1) log.warn("claimed again", { error: why });
    pass();
  }
  expect(lines.map(([, , fields]) => fields?.["repeated"])).toEqual([
    undefined,
    99,
    ...Array.from({ length: 5 }, () => 100),
  ]);
});

test("a different level, message or reason is a different kind", () => {
  const { lines, log } = recorder();
  log.warn("a", { why });
  log.error("a", { why });
  log.warn("b", { why });
  log.warn("a", { why: "another" });
  expect(lines).toHaveLength(4);
});

test("a hundred warnings of a class's agents are written in ten seconds, whatever their errors are; the rest are counted", () => {
  const { lines, log, pass } = recorder();
  const warn = (n: number, of = "A"): void =>
    log.warn("a client's state update was rejected", {
      class: of,
      name: `a${n}`,
      error: `no ${n}`,
    });
  for (let n = 0; n < 500; n += 1) warn(n);
  warn(0, "B");
  log.error("an error in the agent's code", { class: "A", name: "a", error: "boom" });
  expect(lines).toHaveLength(AGENT_LINES_MAX + 2);
  pass();
  expect(lines.at(-1)![2]).toMatchObject({ name: "a499", repeated: 500 - AGENT_LINES_MAX });
  warn(500);
  expect(lines.at(-1)![2]).toEqual({ class: "A", name: "a500", error: "no 500" });
});

test("other lines of agents, lines of requests, and lines without a reason, are all written", () => {
  const { lines, log, timers } = recorder();
  for (let n = 0; n < 2; n += 1) {
    log.info("a turn was given up", { class: "A", name: "a", error: "boom" });
    log.warn("POST /webhooks/github", { why: "no signature matches", [TEXT]: () => "POST" });
    log.info("host started", { host: "h" });
    log.info("said");
  }
  expect([lines.length, timers.length]).toEqual([8, 0]);
});

test("a process that exits writes its remaining counts", () => {
  const { lines, log } = recorder();
  for (let n = 0; n < 3; n += 1) log.warn("shard lost", { shard: n, why });
  log.flush();
  log.flush();
  expect(lines.map(([, , fields]) => fields?.["repeated"])).toEqual([undefined, 2]);
});
