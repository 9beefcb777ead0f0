/** An agent's events in another journal, and the file that carries them there. */
import { describe, expect, it } from "vitest";
import { transplant } from "../../core/journal/transplant.ts";
import {
  agentFileEnd,
  agentFileEvent,
  agentFileHead,
  AgentFileReader,
  readAgentFileHead,
} from "../../schemas/AgentFile.ts";
import { agentId, type Epoch } from "../../schemas/Address.ts";
import { CorruptFrame, UnknownVersion } from "../../schemas/Frame.ts";
import { decodeEvent, encodeEvent, type JournalHead } from "../../schemas/JournalEvent.ts";

const HEAD: JournalHead = {
  id: "event-1",
  agent: ["Repo", "octocat"],
  kind: "turns",
  host: "h",
  epoch: 77,
  time: 12,
  turns: [
    {
      cause: { kind: "webhook", id: "github:1", seq: 4_711, attempt: 2, body: "ü" },
      state: { splice: [3, 4, "🦉"] },
      sql: ["INSERT"],
      done: ["github:1", "dead:4711", "dead:letter", "dead:4711x"],
    },
    { cause: { kind: "request" }, begun: true },
    { cause: { kind: "background", id: "restore:1" }, restored: { seq: 3, time: 11 } },
  ],
  pages: 3,
  schedules: { put: [{ id: "s" }], del: ["t"] },
};
const DELTA = Uint8Array.from({ length: 40_000 }, (_, i) => (i * 31) & 0xff);
const PLACE = { id: agentId("Repo", "a copy / of it"), epoch: 5 as Epoch };

describe("transplant", () => {
  const { head, delta } = decodeEvent(transplant(encodeEvent(HEAD, DELTA), PLACE));

  it("keeps an event's changes, byte for byte", () => {
    expect(Buffer.compare(delta, DELTA)).toBe(0);
    const { turns, ...rest } = head;
    expect(rest).toEqual({
      ...HEAD,
      agent: ["Repo", "a copy / of it"],
      epoch: 5,
      turns: undefined,
    });
    expect(turns[0]).toMatchObject({ state: { splice: [3, 4, "🦉"] }, sql: ["INSERT"] });
    expect(turns[1]).toEqual(HEAD.turns[1]);
  });

  it("drops the inputs' positions in the other inbox, and nothing else of them", () => {
    const { seq: _seq, ...cause } = HEAD.turns[0]!.cause;
    expect(head.turns[0]!.cause).toEqual(cause);
    expect(head.turns[0]!.done).toEqual(["github:1", "dead:letter", "dead:4711x"]);
  });

  it("drops a reference to an event of the other journal that the agent was restored to", () => {
    expect(head.turns[2]!.restored).toEqual({ time: 11 });
  });
});

describe("an agent's file", () => {
  const lines = [
    agentFileHead(agentId("Repo", "ü 大"), 0),
    agentFileEvent({ seq: 3, storedMs: 1, data: DELTA }),
    agentFileEvent({ seq: 9, storedMs: 2, data: new Uint8Array(0) }),
    agentFileEnd(2),
  ];
  const read = (texts: ReadonlyArray<string>) => {
    const [first, ...rest] = texts;
    const id = readAgentFileHead(first ?? "");
    const reader = new AgentFileReader();
    const events = rest.map((text) => reader.read(text));
    reader.finish();
    return { id, events };
  };

  it("is read back as it was written", () => {
    const { id, events } = read(lines);
    expect(id).toEqual(agentId("Repo", "ü 大"));
    expect(events).toHaveLength(3);
    expect(Buffer.compare(events[0]!.data, DELTA)).toBe(0);
    expect(events[1]).toMatchObject({ seq: 9, storedMs: 2 });
    expect(events[2]).toBeUndefined();
  });

  it.each<readonly [string, ReadonlyArray<string>]>([
    ["is empty", []],
    ["begins with another line", lines.slice(1)],
    ["has no end", lines.slice(0, 3)],
    ["has lost an event", [lines[0]!, lines[2]!, lines[3]!]],
    ["has events in another order", [lines[0]!, lines[2]!, lines[1]!, lines[3]!]],
    ["goes on after its end", [...lines, lines[1]!]],
    ["has a line that is no event", [lines[0]!, "{}", lines[3]!]],
    ["has a line that is no JSON", [lines[0]!, "x", lines[3]!]],
  ])("is refused when it %s", (_what, texts) => {
    expect(() => read(texts)).toThrow(CorruptFrame);
  });

  it("of a later version is refused as such", () => {
    expect(() => read([lines[0]!.replace('"v":1', '"v":2')])).toThrow(UnknownVersion);
  });
});
