/** Every parser of outside bytes, briefly: its seeds, kept inputs, and some changed ones. */
import { describe, expect, test } from "vitest";
import { Random } from "../sim/rig/Random.ts";
import { fuzzTarget } from "./fuzzTarget.ts";
import { mutate } from "./mutate.ts";
import { pure } from "./Target.ts";
import { targets } from "./targets/index.ts";

/** So long, or so many. */
const SUITE_MS = 700;
const EXECUTIONS_MAX = 3_000;

test.each(targets.map((target) => [target.name, target] as const))(
  "%s holds its invariants for any bytes",
  async (_, target) => {
    const endMs = performance.now() + SUITE_MS;
    const until = (executions: number) => executions > EXECUTIONS_MAX || performance.now() > endMs;
    const { finding, executions } = await fuzzTarget(target, { seed: 1, until });
    expect(finding?.error).toBeUndefined();
    expect(executions).toBeGreaterThanOrEqual(target.seeds.length);
  },
  60_000,
);

describe("the fuzzer", () => {
  const seeds = [Buffer.from('{"a":[1,"two"]}')];

  test("finds code that throws, rejects or reads past a checksum, and reports the input", async () => {
    const run = (input: Uint8Array) => {
      if (Buffer.from(input).includes("__proto__")) throw new Error("polluted");
    };
    const target = { name: "planted", seeds, words: ["__proto__"], open: pure(run) };
    const { finding } = await fuzzTarget(target, { seed: 1, until: (n) => n > 10_000 });
    expect(finding?.error).toContain("polluted");
    expect(() => run(finding!.input)).toThrow("polluted");
  });

  test("makes the same inputs from the same seed", () => {
    const made = (seed: number) => {
      const random = new Random(seed);
      return Array.from({ length: 200 }, () => Buffer.from(mutate(seeds, ["x"], random)).toString("hex")); // prettier-ignore
    };
    expect(made(7)).toEqual(made(7));
    expect(made(7)).not.toEqual(made(8));
  });
});
