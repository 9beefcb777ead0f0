/** The walk through all journals: who works, and what is said if archive or agent fail it. */
import { expect, test } from "vitest";
import { ArchiveUnavailable } from "../../core/retention/Archive.ts";
import { ID, Journaled, STEP_MS } from "./Journaled.ts";
import { retentionOf, stopped } from "./walker.ts";

/** From one walk to the next, and a walk. */
const ROUND_MS = 70_000;

test("one of two walkers leads, and the other continues when it ends", async () => {
  const agent = await Journaled.open();
  await agent.write(10);
  const [first, second] = [retentionOf(agent), retentionOf(agent)];
  first.retention.start();
  await agent.time.advance(1_000);
  second.retention.start();
  await agent.time.advance(ROUND_MS * 2);
  expect(agent.seqs).toHaveLength(3);
  expect([first, second].map(({ retention }) => retention.state.leads)).toEqual([true, false]);
  expect(second.readiness()).toMatchObject({ ready: true });
  await stopped(agent, first.retention);
  await agent.write(10);
  await agent.time.advance(ROUND_MS * 2);
  expect(second.retention.state.leads).toBe(true);
  expect(agent.seqs).toHaveLength(3);
  await stopped(agent, second.retention);
});

test("an unreachable archive stops trimming, and is reported at /readyz, in the log and as a metric", async () => {
  const agent = await Journaled.open();
  await agent.write(10);
  let isAway = true;
  const place = { segment: "s", offset: 0, bytes: 1, sha256: "" };
  const { retention, metrics, log, readiness } = retentionOf(agent, {
    put: async () => {
      if (isAway) throw new ArchiveUnavailable({ message: "the archive /mnt/a: ENOSPC" });
      return place;
    },
  });
  retention.start();
  await agent.time.advance(ROUND_MS * 2);
  expect(agent.seqs).toHaveLength(10);
  expect(readiness()).toEqual({
    ready: false,
    reason: "history: nothing is trimmed, and nothing is lost, while the archive /mnt/a: ENOSPC",
  });
  expect(log.lines.filter(({ level }) => level === "warn").map(({ fields }) => fields)).toContainEqual({ error: expect.stringContaining("ENOSPC") as string }); // prettier-ignore
  expect(await metrics.render()).toMatch(/agents_archive_failures_total [1-9]/);
  isAway = false;
  await agent.time.advance(ROUND_MS * 2);
  expect(agent.seqs).toHaveLength(3);
  expect(readiness()).toMatchObject({ ready: true });
  await stopped(agent, retention);
});

test("an agent that can't be trimmed keeps everything, and is named", async () => {
  const agent = await Journaled.open();
  await agent.write(10);
  agent.broker.journal.eventsOf(ID)[2]!.data[80]! ^= 1;
  const { retention, metrics, log, readiness } = retentionOf(agent);
  retention.start();
  await agent.time.advance(ROUND_MS * 2);
  expect(agent.seqs).toHaveLength(10);
  expect(readiness()).toMatchObject({ ready: true });
  expect(JSON.stringify(readiness())).toContain(
    "1 agent could not be trimmed and keeps all history",
  );
  expect(log.lines.find(({ level }) => level === "error")?.fields).toMatchObject({ name: "one" });
  expect(await metrics.render()).toMatch(/agents_history_untrimmed_agents 1/);
  await stopped(agent, retention);
});

test("an agent that is erased a second time is removed from the archive again", async () => {
  const agent = await Journaled.open();
  let segments = 0;
  const archived = new Set<string>();
  const place = { offset: 0, bytes: 1, sha256: "" };
  const { retention } = retentionOf(agent, {
    put: async () => {
      const segment = `s${++segments}`;
      archived.add(segment);
      return { ...place, segment };
    },
    erase: async () => {
      archived.clear();
      return [];
    },
  });
  retention.start();
  for (let life = 1; life <= 2; life++) {
    await agent.write(10);
    await agent.time.advance(ROUND_MS * 2);
    expect(archived.size).toBeGreaterThan(0);
    await agent.erase();
    await agent.time.advance(ROUND_MS * 2);
    expect(archived.size).toBe(0);
  }
  await stopped(agent, retention);
});

test("up to a tenth above a limit is kept, so that a base is not stored for each event", async () => {
  const agent = await Journaled.open();
  await agent.write(3);
  const { retention } = retentionOf(agent);
  retention.start();
  await agent.time.advance(ROUND_MS * 2 + STEP_MS);
  expect(agent.broker.bases.get(ID)).toBeUndefined();
  await stopped(agent, retention);
});

test.each([
  ["behind", -365, { events: 3 }, 3],
  ["ahead", 365, { days: 30 }, 10],
])(
  "a machine whose clock is a year %s trims by the broker's clock, with a warning",
  async (_way, days, limits, kept) => {
    const agent = await Journaled.open();
    await agent.write(10);
    const nowMs = (): number => agent.time.nowMs() + days * 24 * 3_600_000;
    const time = { ...agent.time, nowMs };
    const classes = () => [{ className: ID.class, limits }];
    const right = retentionOf(agent, undefined, {
      time,
      classes,
      brokerMs: async () => agent.time.nowMs(),
    });
    right.retention.start();
    await agent.time.advance(ROUND_MS * 2);
    expect(agent.seqs).toHaveLength(kept);
    expect(right.log.lines).toContainEqual(
      expect.objectContaining({ level: "warn", message: expect.stringContaining("clock") as string }), // prettier-ignore
    );
    await stopped(agent, right.retention);
  },
);

test("a stop does not wait for an archive that does not answer, and nothing is trimmed", async () => {
  const agent = await Journaled.open();
  await agent.write(10);
  const all = agent.broker.journal.eventsOf(ID).slice();
  await agent.time.advance(STEP_MS * 20);
  let asked = false;
  const silent = { put: () => new Promise<never>(() => (asked = true)) };
  const { retention } = retentionOf(agent, silent);
  retention.start();
  await agent.time.advance(5_000);
  expect(asked).toBe(true);
  await stopped(agent, retention);
  expect(agent.broker.journal.eventsOf(ID)).toEqual(all);
});
