/** The pages in which a gateway lists a shard's sockets. Whole systems: `system/lostFrames`. */
import { describe, expect, test } from "vitest";
import { agentId } from "../../schemas/Address.ts";
import { decodeMessage } from "../../schemas/bus/message.ts";
import type { CensusReply } from "../../schemas/bus/SocketLists.ts";
import { VirtualTime } from "../../services/memory/VirtualTime.ts";
import {
  SocketTable,
  type Entry,
  type SocketServices,
} from "../../services/gateway/SocketTable.ts";

const ATTACHMENT = { tags: [], state: null as unknown, readonly: false, protocol: true };
/** A broker's message, as of `deploy/nats`. */
const MESSAGE_BYTES_MAX = 1024 * 1024;

function make() {
  const time = new VirtualTime();
  const config = { gatewayId: "g", shards: 1, socketRates: {} };
  const bus = { payloadBytesMax: MESSAGE_BYTES_MAX };
  const warnings: string[] = [];
  const log = { warn: (message: string) => warnings.push(message) };
  const table = new SocketTable({ bus, config, log, time } as unknown as SocketServices);
  let added = 0;
  const add = (count: number, url = "http://x/"): Entry[] =>
    Array.from({ length: count }, () => {
      const [sid, id] = [`s${added}`, agentId("Board", `b${added++}`)];
      const entry = table.add(id, { gateway: "g", sid, id: sid, url, headers: [] });
      entry.attachment = ATTACHMENT;
      return entry;
    });
  /** All pages; `between` runs after each. */
  const sidsListed = (between: (page: CensusReply) => void = () => undefined): string[] => {
    const sids: string[] = [];
    let cursor: string | undefined;
    do {
      const encoded = table.census({ shard: 0, ...(cursor === undefined ? {} : { cursor }) });
      expect(encoded.length).toBeLessThanOrEqual(MESSAGE_BYTES_MAX);
      const page = decodeMessage<CensusReply>(encoded).head;
      sids.push(...page.sockets.map(({ socket }) => socket.sid));
      cursor = page.next;
      between(page);
    } while (cursor !== undefined);
    return sids;
  };
  return { table, add, sidsListed, warnings };
}

const sidsOf = (entries: ReadonlyArray<Entry>): string[] => entries.map(({ info }) => info.sid);

describe("a census", () => {
  test("lists each socket once, in pages", () => {
    const { add, sidsListed } = make();
    const entries = add(450);
    let pages = 0;
    expect(sidsListed(() => pages++)).toEqual(sidsOf(entries));
    expect(pages).toBeGreaterThan(1);
  });

  test("skips no open socket when listed ones are removed between two pages", () => {
    const { table, add, sidsListed } = make();
    const entries = add(1000);
    let removed = 0;
    const listed = sidsListed(() => {
      for (let i = 0; i < 90; i++) table.remove(entries[removed++]!);
    });
    expect(listed).toEqual(expect.arrayContaining(sidsOf(entries.slice(removed))));
    expect(new Set(listed).size).toBe(listed.length);
  });

  test("goes on when the last socket of a page is removed, and lists sockets added meanwhile", () => {
    const { table, add, sidsListed } = make();
    const entries = add(250);
    let added: Entry[] = [];
    const listed = sidsListed(({ next }) => {
      if (next === undefined) return;
      for (const entry of entries.slice(100, 200)) table.remove(entry);
      added = add(3);
    });
    expect(listed).toEqual(sidsOf([...entries, ...added]));
  });

  test("is divided into pages that fit into messages of the broker", () => {
    const { add, sidsListed } = make();
    const entries = [
      ...add(80, `http://x/?${"x".repeat(15_000)}`),
      ...add(80, `http://x/?${"é".repeat(15_000)}`),
      ...add(199),
      ...add(1, `http://x/?${'"'.repeat(15_000)}`),
    ];
    for (const entry of entries.slice(160, 359))
      entry.attachment = { ...ATTACHMENT, state: "s".repeat(6_000) };
    expect(sidsListed()).toEqual(sidsOf(entries));
  });

  test("closes a socket that no message can describe, and lists the others", () => {
    const { table, add, sidsListed, warnings } = make();
    const entries = add(5);
    const large = entries[1]!;
    let closed: unknown[] = [];
    large.attachment = { ...ATTACHMENT, state: "s".repeat(MESSAGE_BYTES_MAX) };
    large.socket = { close: (...frame: unknown[]) => (closed = frame) } as never;
    expect(sidsListed()).toEqual(sidsOf(entries.filter((entry) => entry !== large)));
    expect(closed[0]).toBe(1013);
    expect(table.size).toBe(4);
    expect(warnings).toHaveLength(1);
  });

  test("does not list sockets that were removed, or that no host has accepted", () => {
    const { table, add, sidsListed } = make();
    const entries = add(300);
    for (const entry of entries.slice(0, 250)) table.remove(entry);
    entries[260]!.attachment = undefined;
    const open = entries.slice(250).filter((entry) => entry !== entries[260]);
    expect(sidsListed()).toEqual(sidsOf(open));
    for (const entry of entries) table.remove(entry);
    expect(sidsListed()).toEqual([]);
  });
});
