import { describe, expect, it } from "vitest";
import { estimateHeld } from "../../services/watchdog/estimateHeld.ts";

const held = (value: unknown): number => estimateHeld([value], () => false);

describe("the estimate of what an object holds", () => {
  it("has buffers as they are, however many views they have", () => {
    const bytes = new Uint8Array(1_000_000);
    expect(held({ a: bytes, b: new DataView(bytes.buffer) })).toBeCloseTo(1_000_000, -4);
  });

  it.each([
    ["an array", (all: unknown[]) => all],
    ["a map", (all: unknown[]) => new Map(all.map((each, n) => [n, each]))],
    ["a set", (all: unknown[]) => new Set(all)],
    ["an object", (all: unknown[]) => ({ ...all })],
  ])("is right within a fifth for many like members of %s", (_kind, collect) => {
    const all = Array.from({ length: 10_000 }, (_, n) => ({
      n,
      text: "x".repeat(1_000 + (n % 7)),
    }));
    expect(Math.abs(held(collect(all)) / 10_700_000 - 1)).toBeLessThan(0.2);
  });

  it("counts what is reached twice, or only through others' objects, once or not at all", () => {
    const text = ["x".repeat(1_000_000)];
    const all = { a: text, b: text, back: {} };
    all.back = all;
    expect(held(all)).toBeCloseTo(1_000_000, -4);
    expect(estimateHeld([all], (value) => value === text)).toBeLessThan(1_000);
  });

  it("runs no code of what it looks at", () => {
    const fail = (): never => expect.fail("code of an author ran");
    const proxy = new Proxy({}, { ownKeys: fail, get: fail, getOwnPropertyDescriptor: fail });
    class Many extends Map {
      override forEach(): never {
        return fail();
      }
      override get size(): number {
        return fail();
      }
      override [Symbol.iterator](): never {
        return fail();
      }
    }
    const list = Object.defineProperty([], 0, { get: fail });
    expect(held({ proxy, map: new Many(), list, get value() { return fail(); } })).toBeLessThan(1_000); // prettier-ignore
  });
});
