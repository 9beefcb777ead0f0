/**
 * Turns that end their process, and agents whose inputs keep doing so, as `holds.test.ts` has turns
 * that hold it.
 */
import { describe, expect, test } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { TIMEOUT_MS, useHoldRig } from "./holdRig.ts";

const rig = useHoldRig();
const { send, linesOf, expectEnded, expectAlone, endsOf, deadOf, whileNeighboursWork } = rig;

const answers = async (agent: string): Promise<boolean> =>
  (await fetch(`${rig.installation.gateway.url}/agents/holder/${agent}`)).ok;

describe("an agent whose inputs keep ending processes", () => {
  test(
    "is quarantined: its webhooks are stored and answered 202, until it is released",
    async () => {
      for (const n of [1, 2, 3]) {
        expect(await send("holder", "again", { how: "loop", n })).toBe(202);
        await pollUntil(`input ${n} has ended a process`, () => endsOf("again") >= n, {
          timeoutMs: TIMEOUT_MS,
        });
      }
      await pollUntil(
        "it is quarantined",
        async () => {
          const marked = await rig.installation.ports.quarantines.list();
          return (
            marked.some(({ id }) => id.name === "again") || { done: false, saw: rig.host.told() }
          );
        },
        { timeoutMs: TIMEOUT_MS },
      );
      const listed = await rig.installation.agents("list", "--quarantined", "--json");
      expect(listed.out).toMatch(/"again".*"kind":"kills".*holdingModule\.ts:\d+/);
      const ends = endsOf("again");
      expect(await send("holder", "again", { how: "mark" })).toBe(202);
      expect((await fetch(`${rig.installation.gateway.url}/agents/holder/again`)).status).toBe(503);
      expect(endsOf("again")).toBe(ends);
      expect(await rig.installation.agents("release", "Holder", "nobody")).toMatchObject({
        code: 3,
      });
      const released = await rig.installation.agents("release", "holder", "again");
      expect(released.out).toContain("is released");
      // What waits runs again. The host of the next test would begin what does not end here.
      await pollUntil(
        "its three inputs are dead by their attempts",
        async () => {
          const dead = await deadOf("again");
          return dead.length === 3 || { done: false, saw: [dead, rig.host.told()] };
        },
        { timeoutMs: TIMEOUT_MS },
      );
      await pollUntil("it answers", () => answers("again"), { timeoutMs: TIMEOUT_MS });
      expectEnded(1);
    },
    TIMEOUT_MS * 2,
  );
});

describe("a turn that ends its process", () => {
  test.each([
    ["exit", "process.exit()"],
    ["reallyExit", "process.exit()"],
    ["abort", "process.abort()"],
    ["killed", "process.kill() with SIGKILL"],
  ])(
    "is identified (%s); its input is dead, and its neighbours lose nothing",
    async (how, text) => {
      await whileNeighboursWork(how);
      expect(linesOf(how, text)[0]).toMatchObject({ class: "Holder", turn: "webhook" });
      expectAlone(how);
      expect((await deadOf(how))[0]).toContain(`an agent's code ended its process by ${text}`);
    },
    TIMEOUT_MS * 2,
  );

  test(
    "silently is named at the second time; its input is dead, and its neighbours lose nothing",
    async () => {
      await whileNeighboursWork("crash");
      expectEnded(2);
      expect(linesOf("crash", "it now runs in its own process")).toMatchObject([
        { reason: expect.stringContaining("SIGSEGV"), exactly: false },
      ]);
      expect((await deadOf("crash"))[0]).toContain(
        "its attempts are exhausted, and the last one did not end",
      );
    },
    TIMEOUT_MS * 2,
  );
});

const OUTSIDE = "code outside of any turn ended its process by process.exit()";
/** The second end could be anybody's. */
const ENDS = 3;
describe("code of no turn that ends its process", () => {
  test(
    "is named, and no agent is blamed for it",
    async () => {
      const told = () => rig.host.lines.filter(({ message }) => message === OUTSIDE);
      for (let n = 1; n <= ENDS; n++) {
        expect([200, 202]).toContain(await send("holder", "outside", { how: "outside" }));
        await pollUntil(
          `process ${n} has ended`,
          () => told().length >= n || { done: false, saw: rig.host.told() },
          { timeoutMs: TIMEOUT_MS },
        );
        await pollUntil("the agent answers", () => answers("outside"), { timeoutMs: TIMEOUT_MS });
      }
      for (const { stack } of told()) expect(stack).toMatch(/holdingModule\.ts:\d+/);
      expect(linesOf("outside", "it now runs in its own process")).toEqual([]);
      expectEnded(told().length);
    },
    TIMEOUT_MS * 2,
  );
});

describe("a turn that makes its process stop in order", () => {
  test.each([
    ["disconnect", "process.disconnect()"],
    ["signal", 'process.emit("SIGTERM")'],
  ])(
    "is named (%s), and its agent runs alone",
    async (how, text) => {
      expect([200, 202]).toContain(await send("holder", how, { how }));
      await pollUntil(
        "the agent runs alone",
        () =>
          linesOf(how, "it now runs in its own process").length === 1 || {
            done: false,
            saw: rig.host.told(),
          },
        { timeoutMs: TIMEOUT_MS },
      );
      expect(linesOf(how, text)).toMatchObject([{ class: "Holder", turn: "webhook" }]);
      await pollUntil("it answers", () => answers(how), { timeoutMs: TIMEOUT_MS });
      expectEnded(1);
    },
    TIMEOUT_MS * 2,
  );
});

describe("a turn that changes what its process runs on", () => {
  test.each([
    ["replace", "Map.prototype.get"],
    ["unheard", "EventEmitter.prototype.emit"],
    ["unwritten", "net.Socket.prototype.write"],
  ])(
    "is named if it breaks a part (%s); the process is ended",
    async (how, part) => {
      expect([200, 202, 500]).toContain(await send("holder", how, { how }));
      const line = await pollUntil(
        "a process is ended",
        () => {
          const [value] = linesOf(how, "has broken a part of what its process runs on");
          return value === undefined
            ? { done: false, saw: rig.host.told() }
            : { done: true, value };
        },
        { timeoutMs: TIMEOUT_MS },
      );
      expect(line).toMatchObject({ class: "Holder", part, exactly: false });
      // The host of the next test would run it again.
      await pollUntil("its input is dead", async () => (await deadOf(how)).length > 0, {
        timeoutMs: TIMEOUT_MS,
      });
      await pollUntil("it answers", () => answers(how), { timeoutMs: TIMEOUT_MS });
    },
    TIMEOUT_MS * 2,
  );

  test(
    "fails if it gives every object a field; no process is ended",
    async () => {
      await whileNeighboursWork("pollute");
      expect((await deadOf("pollute"))[0]).toContain("object is not extensible");
      expectEnded(0);
    },
    TIMEOUT_MS * 2,
  );
});
