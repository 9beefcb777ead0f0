/** What a host does when one of its agents is erased, also one that could not start. */
import { jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
import { afterEach, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { encodeEvent } from "../../schemas/JournalEvent.ts";
import { Subjects } from "../../schemas/Subjects.ts";
import { openReader } from "../../services/wiring/joinReader.ts";
import type { ReadPorts } from "../../services/wiring/ReadPorts.ts";
import { pollUntil } from "../kit/poll.ts";
import { runCommand } from "../kit/runCommand.ts";
import { journalOf, makeLatch, TestSocket, useSystems, type Latch } from "./kit.ts";

let begun = makeLatch();
let held = makeLatch();
let starts = 0;
/** What became of the write after the latch, for each agent that ran the request. */
const late: string[] = [];

class CountAgent extends Agent<unknown, { readonly count: number }> {
  override initialState = { count: 0 };
  override onStart() {
    starts++;
  }
  override async onRequest(request: Request) {
    this.setState({ count: this.state.count + 1 });
    if (new URL(request.url).searchParams.has("hold")) {
      begun.open();
      await held.opened;
      try {
        this.setState({ count: 1_000 });
        late.push("stored");
      } catch (error) {
        late.push((error as Error).name);
        throw error;
      }
    }
    return new Response(String(this.state.count));
  }
}

class BrokenAgent extends CountAgent {
  override onStart(): void {
    if (this.state.count > 0) throw new Error("it can't start any more");
  }
}

const systems = useSystems({ maxPayload: 1024 * 1024 });
let ports: ReadPorts | undefined;
const latches = (): readonly [Latch, Latch] => [(begun = makeLatch()), (held = makeLatch())];
afterEach(async () => {
  held.open();
  await ports?.close();
  ports = undefined;
});

const start = async () => {
  const system = await systems.start({ agents: { CountAgent, BrokenAgent } });
  const { nats, namespace } = system.options;
  ports = await openReader({ natsUrl: nats, namespace: namespace! });
  const { calls, journal } = ports;
  return {
    system,
    journal,
    get: async (name: string, className = "count-agent") =>
      (await fetch(`${system.url}/agents/${className}/${name}`)).text(),
    kindsOf: async (name: string) =>
      (await journalOf(system.options, "CountAgent", name)).map(({ kind, turns }) =>
        turns.length === 0 ? kind : "turns",
      ),
    erase: async (name: string, className = "CountAgent") => {
      const bounds = { deadlineMs: 10_000, repeatable: true };
      const { reply } = await calls.call(agentId(className, name), { kind: "erase" }, bounds);
      return reply;
    },
  };
};

async function listed(url: string, namespace: string): Promise<string> {
  return (await runCommand(["list", "--nats", url, "--namespace", namespace])).out;
}

async function removeBlobs(url: string, namespace: string): Promise<void> {
  const client = await connect({ servers: url.replace("nats://", "") });
  const manager = await jetstreamManager(client);
  const { purged } = await manager.streams.purge(`OBJ_${new Subjects(namespace).bucket.blobs}`);
  expect(purged).toBeGreaterThan(0);
  await client.close();
}

describe("an agent that is erased", () => {
  test("ends with one minimal event, closes its sockets, and runs no code", async () => {
    const { system, get, erase, kindsOf } = await start();
    expect(await get("one")).toBe("1");
    const socket = await TestSocket.open(`${system.url}/agents/count-agent/one`);
    const startsBefore = starts;
    expect(await erase("one")).toMatchObject({ kind: "result" });
    await socket.until("its end", () => socket.closed !== undefined);
    expect(socket.closed).toEqual({ code: 1001, reason: "Durable Object destroyed" });
    expect(starts).toBe(startsBefore);
    expect((await kindsOf("one")).at(-1)).toBe("destroyed");
    expect(await get("one")).toBe("1");
  });

  test("ends once if erased twice, and not at all if it does not exist", async () => {
    const { get, erase, kindsOf } = await start();
    await get("twice");
    const first = await erase("twice");
    expect(await erase("twice")).toEqual(first);
    expect((await kindsOf("twice")).filter((kind) => kind === "destroyed")).toHaveLength(1);
    expect(await erase("nobody")).toEqual({ kind: "result", value: 0 });
    expect(await kindsOf("nobody")).toEqual([]);
  });

  test("during a request stores nothing more of it", async () => {
    const { system, erase, kindsOf } = await start();
    const [started, hold] = latches();
    const holding = fetch(`${system.url}/agents/count-agent/busy?hold`);
    await started.opened;
    // What it wrote before it waits is stored by itself.
    await pollUntil("its first turn is stored", async () => (await kindsOf("busy")).length === 1);
    expect(await erase("busy")).toMatchObject({ kind: "result" });
    const stored = await kindsOf("busy");
    hold.open();
    await holding;
    const after = await kindsOf("busy");
    // The gateway asks the fresh agent instead, whose turns may follow at once: another's life. The
    // one that was erased could not write.
    expect(stored.slice(0, 2)).toEqual(["turns", "destroyed"]);
    expect(after.slice(0, stored.length)).toEqual(stored);
    expect(late.filter((outcome) => outcome !== "stored")).toEqual(["AgentDiscarded"]);
    expect(late.filter((outcome) => outcome === "stored").length).toBeLessThanOrEqual(1);
  });

  test("is erased even if it can't start", async () => {
    const { get, erase } = await start();
    expect(await get("broken", "broken-agent")).toBe("1");
    // Thrown out of memory: its next start fails.
    await erase("other", "BrokenAgent");
    expect(await erase("broken", "BrokenAgent")).toMatchObject({ kind: "result" });
    expect(await get("broken", "broken-agent")).toBe("1");
  });

  test.each([
    ["has a damaged byte", 0],
    ["lost its bytes, which were in the blob store", 2 * 1024 * 1024],
  ])(
    "is erased even if its journal's last event %s, and can be created again",
    async (_what, bytes) => {
      const { system, get, erase, journal } = await start();
      const id = agentId("CountAgent", "damaged");
      const head = {
        id: "x",
        agent: ["CountAgent", "damaged"],
        kind: "turns",
        host: "h",
        epoch: 1,
      };
      const data = encodeEvent({ ...head, time: 1, turns: [] } as never, new Uint8Array(bytes));
      if (bytes === 0) data[data.length - 3]! ^= 1;
      const signal = AbortSignal.timeout(10_000);
      await journal.append(id, data, { expectedSeq: 0 as Sequence, signal });
      if (bytes > 0) await removeBlobs(system.options.nats, system.options.namespace!);
      expect((await fetch(`${system.url}/agents/count-agent/damaged`)).status).toBe(503);
      await pollUntil("it is in quarantine", () =>
        system.host.log.lines.some(({ message }) => message.includes("quarantined")),
      );
      const { nats, namespace } = system.options;
      expect(await listed(nats, namespace!)).toContain("damaged");
      const reply = await erase("damaged");
      expect(reply).toMatchObject({ kind: "result" });
      await ports!.purge(id, {
        keepEventsFrom: Number((reply as { value: number }).value) as Sequence,
      });
      expect(await get("damaged")).toBe("1");
    },
  );
});
