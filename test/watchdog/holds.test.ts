/**
 * Turns that hold their process, or fill its memory, in an installation of real processes: the log
 * names the agent and the line, one worker ends once, the later attempts run alone, the input is
 * dead after its attempts, and the neighbours' webhooks apply once.
 */
import { describe, expect, test } from "vitest";
import { pollUntil } from "../kit/poll.ts";
import { TIMEOUT_MS, useHoldRig } from "./holdRig.ts";

const rig = useHoldRig();
const { linesOf, expectEnded, expectAlone, deadOf, whileNeighboursWork } = rig;

describe("a turn that blocks its process", () => {
  test.each([
    ["loop", /holdingModule\.ts:\d+/],
    ["afterAwait", /holdingModule\.ts:\d+/],
    ["thrown", /holdingModule\.ts:\d+/],
    ["regex", /holdingModule\.ts:\d+/],
    ["microtasks", /holdingModule\.ts:\d+/],
    ["sql", /./],
    ["native", /native code/],
  ])(
    "is ended and identified (%s); its input is dead, and its neighbours lose nothing",
    async (how, where) => {
      await whileNeighboursWork(how);
      const lines = linesOf(how, "for longer than cpuSeconds");
      expect(lines.map(({ attempt }) => attempt)).toEqual([1, 2]);
      for (const line of lines)
        expect(line).toMatchObject({
          level: "error",
          class: "Holder",
          turn: "webhook",
          key: expect.any(String) as string,
        });
      // A machine that is very busy does not pause the code in time. Then it is called native.
      expect(lines.map((line) => line["where"]).join(" ")).toMatch(where);
      expect((await deadOf(how))[0]).toMatch(/held the thread of its process for .* in /);
      expectAlone(how);
    },
    TIMEOUT_MS * 2,
  );
});

test(
  "turns that continue together and hold the thread for longer than any of them may are not ended",
  async () => {
    // Some 30 on each of two workers, for 50 ms each; the limit of one is a second.
    const names = Array.from({ length: 60 }, (_, n) => `waiter-${n}`);
    const untilMs = Date.now() + 4_000;
    await Promise.all(names.map((name) => rig.send("waiter", name, { untilMs, workMs: 50 })));
    for (const name of names)
      await pollUntil(
        `${name} has run`,
        async () =>
          (await rig.countOf(name, "waiter")) === 1 || { done: false, saw: rig.host.told() },
        { timeoutMs: TIMEOUT_MS },
      );
    expectEnded(0);
  },
  TIMEOUT_MS * 2,
);

test(
  "a constructor that is looked at before it calls super() goes on as if it had not been",
  async () => {
    expect([200, 202, 500]).toContain(await rig.send("hoarder", "built", { how: "construct" }));
    const turns = async (...more: string[]): Promise<string> =>
      (await rig.installation.agents("history", "Hoarder", "built", "--json", ...more)).out;
    await pollUntil(
      "its webhook is done",
      async () => {
        const saw = await turns();
        return saw.includes('"done"') || { done: false, saw };
      },
      { timeoutMs: TIMEOUT_MS },
    );
    expect(await turns("--failed")).toBe("");
  },
  TIMEOUT_MS,
);

test.each([
  ["half", "waiter", 500],
  ["a small part", "worker", 500],
])(
  "an agent whose turns hold the thread most of the time, each for %s of its limit, runs alone",
  async (_part, kind, workMs) => {
    const more = { untilMs: 0, workMs };
    let sent = 0;
    const work = async (): Promise<void> => {
      expect([200, 202]).toContain(await rig.send(kind, "busy", more));
      sent++;
    };
    await pollUntil(
      "it is isolated",
      async () => {
        await work();
        const lines = rig.linesOf("busy", "it now runs in its own process");
        return lines.length > 0 || { done: false, saw: rig.host.told() };
      },
      { timeoutMs: TIMEOUT_MS, intervalMs: 1 },
    );
    for (let n = 0; n < 5; n++) await work();
    await pollUntil(
      "each of its webhooks is done, once",
      async () => {
        const saw = await rig.countOf("busy", kind);
        return saw === sent || { done: false, saw: { saw, sent, told: rig.host.told() } };
      },
      { timeoutMs: TIMEOUT_MS },
    );
    const shown = await rig.installation.agents("connections", kind, "busy", "--json");
    expect(shown.out).toContain('"isolated"');
    expectEnded(0);
  },
  TIMEOUT_MS * 2,
);

describe("a turn that fills the memory of its process", () => {
  test.each([
    ["heap", "its heap had"],
    ["leak", "its heap had"],
    ["buffers", "it had"],
  ])(
    "is ended and identified (%s); its input is dead, and its neighbours lose nothing",
    async (how, text) => {
      await whileNeighboursWork(how, "hoarder");
      expect(linesOf(how, "the memory of a process is nearly full")[0]).toMatchObject({
        class: "Hoarder",
        turn: "webhook",
        memory: expect.stringContaining(text) as string,
      });
      expect((await deadOf(how))[0]).toContain(`memory of its process was nearly full (${text}`);
      // A turn that waits in between may be taken for a neighbour's at first; not by most looks.
      expect(linesOf(how, "it now runs in its own process")).toHaveLength(1);
    },
    TIMEOUT_MS * 2,
  );

  test(
    "with a string too large for any process fails like any turn",
    async () => {
      await whileNeighboursWork("longString");
      expect((await deadOf("longString"))[0]).toContain("RangeError: Invalid string length");
      expectEnded(0);
    },
    TIMEOUT_MS * 2,
  );

  test(
    "over many turns is ended, and its log line says which function has allocated it",
    async () => {
      const found = () => rig.host.lines.find((line) => line["allocatedBy"] !== undefined);
      while (found() === undefined) await rig.send("holder", "keeper", { how: "keep" });
      const [most = ""] = found()!["allocatedBy"] as ReadonlyArray<string>;
      expect(most).toMatch(/^\d+ MB by keepMore \(.*holdingModule\.ts:\d+:\d+\)$/);
    },
    TIMEOUT_MS * 2,
  );

  test(
    "that an agent's object holds names this agent, which runs alone, whoever's turn runs then",
    async () => {
      let isFull = false;
      const neighbours = Array.from({ length: 8 }, async (_, n) => {
        while (!isFull) await rig.send("neighbour", `neighbour-${n}`);
      });
      const full = () => rig.host.lines.find(({ message }) => message.includes("is nearly full"));
      while (full() === undefined) await rig.send("keeper", "hoard");
      isFull = true;
      await Promise.all(neighbours);
      expect(full()).toMatchObject({ class: "Keeper", name: "hoard", exactly: true });
      expect(full()!["heldMb"]).toBeGreaterThan(90);
      // As the host was told, of the larger limit that V8 has.
      expect(full()!["memory"]).toMatch(/^its heap had 1\d\d of 200 MB$/);
      expect(linesOf("hoard", "it now runs in its own process")).toHaveLength(1);
    },
    TIMEOUT_MS * 2,
  );
});
