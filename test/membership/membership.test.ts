/** `npm run membership` in the suite's size, with counts and generous deadlines only. */
import { describe, expect, test } from "vitest";
import { measureDrain } from "./drain.ts";
import type { PartResult } from "./Part.ts";
import { measureRolling } from "./rolling.ts";

/** The restart took 107 s on a busy machine of two cores. */
const PART_TIMEOUT_MS = 280_000;

const quiet = (): void => undefined;

/** Rules about times are the program's: a busy machine breaks them. */
function expectAll({ rules }: PartResult): void {
  const broken = rules.filter(({ timed, holds }) => timed !== true && !holds);
  // As text: a report of a failure shortens objects, and what was seen is its only evidence.
  expect(broken.map(({ rule, saw }) => `${rule}: ${saw}`).join("\n")).toBe("");
}

describe("an installation whose members change under load", () => {
  test(
    "restarts hosts and gateways one after the other: no webhook fails, and no host costs a socket",
    async () =>
      expectAll(await measureRolling({ clients: 30, perSecond: 25, restMs: 500, say: quiet })),
    PART_TIMEOUT_MS,
  );

  test(
    "stops a host during slow turns: they are answered, waiting work continues elsewhere, and all is applied once",
    async () => expectAll(await measureDrain({ agents: 6, slowMs: 1_000, longMs: 1_500 })),
    PART_TIMEOUT_MS,
  );
});
