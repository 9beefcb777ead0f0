/** The contract of `core/schedule/Timers`, for any adapter. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Delivery } from "../../core/inbox/Inbox.ts";
import { agentId, shardOf, type AgentId, type ShardId } from "../../schemas/Address.ts";
import { decodeFrame } from "../../schemas/Frame.ts";
import { message, ODD_NAMES, newShard, SHARDS, type Backend, type Ports } from "./Backend.ts";

/** How long a test waits for what must not come, after it was due. */
const SILENCE_MS = 700;
/** The adapters' promise is a few hundred milliseconds; a busy machine may double it. */
const DUE_SOON_MS = 600;

interface Fired {
  readonly id: AgentId;
  readonly label: string;
  readonly atMs: number;
}

export function timerRules(makeBackend: () => Promise<Backend>): void {
  describe("timers", () => {
    let backend: Backend;
    let ports: Ports;
    beforeAll(async () => {
      backend = await makeBackend();
      ports = await backend.open();
    });
    afterAll(() => backend.close());

    /** What fires for one shard from now on; each is acked. */
    async function listen(shard: ShardId, at: Ports = ports): Promise<Fired[]> {
      const fired: Fired[] = [];
      await at.inbox.consume(shard, (delivery: Delivery) => {
        const { head } = decodeFrame(delivery.data);
        fired.push({ id: delivery.id, label: String(head["id"]), atMs: backend.wallMs() });
        delivery.ack();
      });
      return fired;
    }
    const labels = (fired: ReadonlyArray<Fired>): string[] => fired.map(({ label }) => label);
    const fires = (fired: ReadonlyArray<Fired>, count: number) =>
      backend.until(`${count} timers fire`, () =>
        fired.length >= count ? { done: true, value: true } : { done: false, saw: labels(fired) },
      );
    const arm = (id: AgentId, name: string, atMs: number, label = name) =>
      ports.timers.arm(id, name, atMs, message(label));
    /**
     * Timers of a new agent, all of which are armed before the first is due: on a machine that
     * stood still meanwhile, those of another agent.
     */
    async function armedInTime(firstMs: number, arms: (id: AgentId, now: number) => Promise<void>) {
      for (;;) {
        const { shard, agent } = newShard();
        const id = agent("in-time");
        const fired = await listen(shard);
        const now = backend.wallMs();
        await arms(id, now);
        if (backend.wallMs() < now + firstMs) return { id, fired, now };
      }
    }
    /** A timer armed later than others and due after them: when it fires, they had their time. */
    async function silence(fired: ReadonlyArray<Fired>, id: AgentId): Promise<void> {
      await arm(id, "silence", backend.wallMs() + SILENCE_MS);
      await backend.until("the last timer fires", () => labels(fired).includes("silence"));
    }

    it("fire into the agent's inbox, with their envelope, never early", async () => {
      const { shard, agent } = newShard();
      const [one, two] = [agent("one"), agent("two")];
      const fired = await listen(shard);
      const now = backend.wallMs();
      const due = new Map<string, number>();
      for (let n = 0; n < 20; n++) {
        due.set(`t${n}`, now + DUE_SOON_MS + n * 37);
        await arm(n % 2 === 0 ? one : two, `t${n}`, due.get(`t${n}`)!);
      }
      await fires(fired, 20);
      const late = fired.map(({ label, atMs }) => atMs - due.get(label)!);
      expect(Math.min(...late)).toBeGreaterThanOrEqual(0);
      expect(new Set(labels(fired))).toEqual(new Set(due.keys()));
      for (const { id, label } of fired)
        expect(id).toEqual(Number(label.slice(1)) % 2 === 0 ? one : two);
      const sorted = late.toSorted((a, b) => a - b).map(Math.round);
      process.stdout.write(
        `${backend.name}: timers late by ${sorted[10]} ms (p50), ${sorted[19]} ms (most)\n`,
      );
    });

    it("are replaced when their name is armed again: later, sooner, and with another envelope", async () => {
      const { id, fired, now } = await armedInTime(300, async (to, from) => {
        await arm(to, "later", from + 300, "too early");
        await arm(to, "later", from + 1_500, "later");
        await arm(to, "sooner", from + 60_000, "too late");
        await arm(to, "sooner", from + 600, "sooner");
      });
      await fires(fired, 2);
      expect(labels(fired)).toEqual(["sooner", "later"]);
      expect(fired[1]!.atMs).toBeGreaterThanOrEqual(now + 1_500);
      await silence(fired, id);
      expect(labels(fired)).toEqual(["sooner", "later", "silence"]);
    });

    it("do not fire once disarmed; disarming an unknown or fired timer has no effect", async () => {
      const { id, fired } = await armedInTime(1_000, async (to, from) => {
        await arm(to, "off", from + 1_000);
        await arm(to, "on", from + 1_000);
        await ports.timers.disarm(to, "off");
        await ports.timers.disarm(to, "unknown");
      });
      await fires(fired, 1);
      await ports.timers.disarm(id, "on");
      await silence(fired, id);
      expect(labels(fired)).toEqual(["on", "silence"]);
    });

    it("can be armed again after they were disarmed", async () => {
      const { shard, agent } = newShard();
      const id = agent("twice");
      const fired = await listen(shard);
      await arm(id, "x", backend.wallMs() + 60_000, "first");
      await ports.timers.disarm(id, "x");
      await arm(id, "x", backend.wallMs() + 100, "second");
      await fires(fired, 1);
      expect(labels(fired)).toEqual(["second"]);
    });

    it.each([
      ["just passed", () => backend.wallMs() - 1],
      ["passed long ago", () => backend.wallMs() - 40 * 365 * 86_400_000],
      ["before the epoch", () => -1],
      ["long before any calendar", () => -8.64e15],
    ])("fire at once if their time is %s", async (_name, atMs) => {
      const { shard, agent } = newShard();
      const fired = await listen(shard);
      await arm(agent("past"), "past", atMs());
      await fires(fired, 1);
      expect(labels(fired)).toEqual(["past"]);
    });

    it("are stored for times up to the end of the year 9999", async () => {
      const { agent } = newShard();
      const id = agent("far");
      await arm(id, "far", Date.UTC(9999, 11, 31, 23, 59, 59));
      await ports.timers.disarm(id, "far");
    });

    it("fire for the consumer that owns the shard when they are due", async () => {
      const connected = await backend.open();
      // Again where a busy machine took so long that it was due for the consumer before.
      for (let dueMs = DUE_SOON_MS; ; dueMs *= 2) {
        const { shard, agent } = newShard();
        const before = await listen(shard);
        const due = backend.wallMs() + dueMs;
        await arm(agent("moved"), "x", due);
        const after = await listen(shard, connected);
        if (backend.wallMs() >= due) continue;
        await fires(after, 1);
        expect([labels(before), labels(after)]).toEqual([[], ["x"]]);
        return;
      }
    });

    it.each(ODD_NAMES)("keep odd names of agents and of timers: %s", async (_name, odd) => {
      const id = agentId("Repo", odd);
      const fired = await listen(shardOf(id, SHARDS) as ShardId);
      const mine = (): Fired[] => fired.filter((one) => one.id.name === odd);
      const name = odd.length > 200 ? odd.slice(0, 40) : odd;
      await arm(id, name, backend.wallMs() + 60_000, "replaced");
      await arm(id, name, backend.wallMs() + 100, "fires");
      await arm(id, `${name}.2`, backend.wallMs() + DUE_SOON_MS * 10, "disarmed");
      await ports.timers.disarm(id, `${name}.2`);
      await backend.until("it fires", () => mine().length > 0);
      expect(labels(mine())).toEqual(["fires"]);
    });

    it("survive a kill of the broker: those due meanwhile fire on its return, the rest when due", async () => {
      const { fired, now } = await armedInTime(300, async (to, from) => {
        await arm(to, "meanwhile", from + 300);
        await arm(to, "later", from + 4_000);
        await arm(to, "disarmed", from + 4_000);
        await ports.timers.disarm(to, "disarmed");
      });
      await backend.kill();
      await backend.restart();
      await fires(fired, 2);
      expect(labels(fired)).toEqual(["meanwhile", "later"]);
      expect(fired[1]!.atMs).toBeGreaterThanOrEqual(now + 4_000);
    });

    it("report BrokerUnavailable while the broker is away", async () => {
      const { agent } = newShard();
      await backend.kill();
      try {
        await expect(arm(agent("away"), "x", backend.wallMs())).rejects.toMatchObject({
          _tag: "BrokerUnavailable",
        });
      } finally {
        await backend.restart();
      }
    });
  });
}
