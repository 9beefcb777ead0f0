/** What servers' answers say of an acknowledgement (`services/nats/setup/durability`). */
import { describe, expect, test } from "vitest";
import {
  describeDurability,
  judge,
  type ServerAnswer,
} from "../../services/nats/setup/durability.ts";

const answersOf = (servers: Readonly<Record<string, boolean>>): Map<string, ServerAnswer> =>
  new Map(
    Object.entries(servers).map(([name, always]) => [
      name,
      { server: { name }, data: { config: { sync_always: always, sync_interval: 120e9 } } },
    ]),
  );
const THREE = [
  ["a", "b", "c"],
  ["b", "a", "c"],
];

describe("acknowledged is on disk", () => {
  test("if each server with a copy syncs before it answers; others don't matter", () => {
    const durability = judge(THREE, answersOf({ a: true, b: true, c: true, other: false }), 3);
    expect(durability).toEqual({ _tag: "Durable", replicas: 3, away: [] });
    expect(describeDurability(durability)).toBe("acknowledged is on disk (3 copies)");
  });

  test("while one of three is unreachable, which is reported: it stores nothing that is acknowledged", () => {
    const durability = judge(THREE, answersOf({ a: true, b: true }), 3);
    expect(durability).toEqual({ _tag: "Durable", replicas: 3, away: ["c"] });
    expect(describeDurability(durability)).toBe(
      "acknowledged is on disk (3 copies; without c, which did not answer or stores nothing)",
    );
  });

  test("while one of three has turned JetStream off, as its disk is full", () => {
    const answers = answersOf({ a: true, b: true });
    // As nats-server 2.15.1 answers then.
    answers.set("c", {
      server: { name: "c" },
      data: { disabled: true, config: { sync_interval: 0 } },
    });
    expect(judge(THREE, answers, 3)).toEqual({ _tag: "Durable", replicas: 3, away: ["c"] });
  });

  test("except if one that answers syncs later", () => {
    const durability = judge(THREE, answersOf({ a: true, b: false }), 3);
    expect(durability).toMatchObject({
      _tag: "Weak",
      why: expect.stringContaining("the server b"),
    });
  });
});

describe("durability is unknown", () => {
  test("when those that answer are a minority of a stream's copies", () => {
    expect(judge(THREE, answersOf({ a: true }), 3)._tag).toBe("Unknown");
    const apart = [
      ["a", "b", "c"],
      ["c", "d", "e"],
    ];
    expect(judge(apart, answersOf({ a: true, b: true, d: true }), 3)._tag).toBe("Unknown");
    expect(judge([["a"]], answersOf({ b: true }), 1)._tag).toBe("Unknown");
  });

  test("when no server answers, as the account may not ask", () => {
    expect(judge(THREE, new Map(), 3)).toMatchObject({
      _tag: "Unknown",
      why: expect.stringContaining("allow this account to request"),
    });
  });
});
