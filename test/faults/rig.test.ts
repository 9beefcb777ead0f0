/**
 * The fault rig in the size of a suite: one seed over one nats-server, as many faults as fit. `npm
 * run faults` is the same with more of them, `npm run faults -- --long` a night's worth.
 */
import { expect, test } from "vitest";
import { runRig } from "./rig/runRig.ts";

/** A host, the broker, the network, stored bytes; the rest if there is time. */
const FAULTS = ["host-freeze", "nats-kill", "drop", "cache-damage", "gateway-cut", "host-kill"];
/** No fault begins later: the suite has 45 s for it all, on a calm machine. */
const BUDGET_MS = 10_000;
const TEST_TIMEOUT_MS = 300_000;

test(
  "all guarantees hold while real processes are killed, frozen and partitioned",
  async () => {
    const report = await runRig({ seed: 1, servers: 1, faults: FAULTS, budgetMs: BUDGET_MS });
    console.info("fault rig:", report.figures, report.bites.lines);
    expect({ violations: report.violations, kept: report.kept }).toEqual({
      violations: [],
      kept: undefined,
    });
    expect(report.bites.done.size).toBeGreaterThan(0);
    expect(report.bites.toothless).toEqual([]);
  },
  TEST_TIMEOUT_MS,
);
