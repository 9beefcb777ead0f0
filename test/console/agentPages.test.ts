/** The console's list of agents (`AgentPages`) compared with a list that changes constantly. */
import fc from "../kit/property.ts";
import { expect, it } from "vitest";
import type { ListedAgent } from "../../services/cli/commands/list.ts";
import { AgentPages, PAGE } from "../../services/consolePage/AgentPages.ts";
import type { News } from "../../services/consolePage/api.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";

/** Longer than all questions that can be open, and their rests. */
const SETTLED_MS = 600_000;
const ANSWER_MS = 50;

const nameOf = (n: number): string => `agent ${String(n).padStart(4, "0")}`;

/** What the console knows; its answers are as of the middle of the time that they take. */
class Known {
  readonly agents = new Map<string, ListedAgent>();
  readonly asked: Array<{ readonly after: string | undefined; readonly fresh: boolean }> = [];
  isDown = false;
  readonly time = new VirtualTime();
  readonly pages: AgentPages;

  constructor(count: number, filter = { class: "", text: "" }) {
    for (let n = 0; n < count; n++) this.write(n * 2);
    this.pages = new AgentPages({
      filter,
      onChange: () => undefined,
      time: this.time,
      ask: async ({ after, fresh }) => {
        this.asked.push({ after: after?.name, fresh });
        await this.delay(ANSWER_MS / 2);
        if (this.isDown) throw new Error("away");
        const list = this.all.filter(
          ({ name }) =>
            (after === undefined || name > after.name) && name.includes(filter.text.toLowerCase()),
        );
        await this.delay(ANSWER_MS / 2);
        return list.slice(0, PAGE);
      },
    });
  }

  settle(): Promise<void> {
    return this.time.advance(SETTLED_MS);
  }

  private delay(ms: number): Promise<void> {
    return new Promise((resolve) => this.time.after(ms, resolve));
  }

  get all(): ReadonlyArray<ListedAgent> {
    return [...this.agents.values()].toSorted((a, b) => (a.name < b.name ? -1 : 1));
  }

  write(n: number): News {
    const name = nameOf(n);
    const events = (this.agents.get(name)?.events ?? 0) + 1;
    this.agents.set(name, { class: "Repo", name, events, lastSeq: events, time: "2026" });
    return { agents: [["Repo", name, events]] };
  }

  /** An end is an event, too. */
  end(n: number): News {
    this.agents.delete(nameOf(n));
    return { agents: [["Repo", nameOf(n), 1]] };
  }
}

type Act = readonly [what: "write" | "end" | "more" | "wait" | "away" | "missed", n: number];
const act: fc.Arbitrary<Act> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(fc.constantFrom("write" as const, "end" as const), fc.nat(999)) },
  { weight: 3, arbitrary: fc.tuple(fc.constantFrom("more" as const, "away" as const, "missed" as const), fc.nat(1)) },
  { weight: 4, arbitrary: fc.tuple(fc.constant("wait" as const), fc.nat(3_000)) },
); // prettier-ignore

/** An agent comes into the page that was asked for, after the console has looked. */
const NEWS_OF_THE_NEXT_PAGE: [count: number, acts: Act[]] = [
  100,
  [
    ["wait", 0],
    ["write", 189],
    ["more", 0],
    ["wait", 75],
    ["write", 197],
  ],
];

it("all pages up to the last requested one are shown, whatever changes meanwhile", async () => {
  await fc.assert(
    fc.asyncProperty(fc.nat(250), fc.array(act, { maxLength: 40 }), async (count, acts) => {
      const known = new Known(count);
      const { pages } = known;
      for (const [what, n] of acts) {
        if (what === "write") pages.hear(known.write(n));
        if (what === "end") pages.hear(known.end(n));
        if (what === "more" && !pages.isAll) pages.more();
        if (what === "wait") await known.time.advance(n);
        if (what === "away") known.isDown = n === 0;
        if (what === "missed") pages.hear({ agents: [] });
      }
      known.isDown = false;
      // A request while the console is unreachable waits for news.
      pages.hear({ agents: [] });
      await known.settle();
      const shown = pages.list ?? [];
      const all = known.all;
      if (pages.isAll) expect(shown).toEqual(all);
      else {
        expect(shown.length).toBeGreaterThanOrEqual(PAGE);
        expect(shown).toEqual(all.slice(0, shown.length));
      }
      expect(pages.error).toBeUndefined();
      pages.close();
    }),
    { numRuns: 200, examples: [NEWS_OF_THE_NEXT_PAGE] },
  );
});

it("only the page of a changed agent is reloaded", async () => {
  const known = new Known(250);
  await known.settle();
  known.pages.more();
  await known.settle();
  known.asked.length = 0;
  known.pages.hear(known.write(240));
  await known.settle();
  expect(known.asked).toEqual([{ after: nameOf(198), fresh: true }]);
  expect(known.pages.list?.find(({ name }) => name === nameOf(240))?.events).toBe(2);
  // After the last that is shown.
  known.pages.hear(known.write(450));
  await known.settle();
  expect(known.asked).toHaveLength(1);
});

it("changes of agents outside the search trigger no request", async () => {
  const known = new Known(30, { class: "repo", text: "AGENT 00" });
  await known.settle();
  known.asked.length = 0;
  known.pages.hear({ agents: [["Repo", "another", 1]] });
  known.pages.hear({ agents: [["Customer", "agent 0001", 1]] });
  await known.settle();
  expect(known.asked).toEqual([]);
});

it("the list pauses for nine times as long as an answer took, however many changes there are", async () => {
  const known = new Known(300);
  await known.settle();
  known.pages.more();
  known.pages.more();
  await known.settle();
  known.asked.length = 0;
  for (let n = 0; n < 400; n++) {
    known.pages.hear({ agents: [] });
    await known.time.advance(ANSWER_MS);
  }
  const seconds = (400 * ANSWER_MS) / 1_000;
  expect(known.asked.length).toBeLessThanOrEqual(seconds + 1);
  // Each page had its turn.
  expect(new Set(known.asked.map(({ after }) => after)).size).toBe(2);
});
