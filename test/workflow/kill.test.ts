/**
 * 1,000 workflows at once on a real nats-server while their hosts are killed: each finishes, each
 * step's recorded result is one, each report is heard once, and the lists are right.
 */
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentId, type Sequence } from "../../schemas/Address.ts";
import { decodeEvent } from "../../schemas/JournalEvent.ts";
import type { AgentsProcess } from "../kit/AgentsProcess.ts";
import { pollUntil } from "../kit/poll.ts";
import { Installation } from "../kit/Installation.ts";

const MODULE = fileURLToPath(new URL("./killModule.ts", import.meta.url));
const OFFICES = 10;
const EACH = 100;
const SHARDS = 16;
/** A busy machine stalls its hosts for a second or two. */
const LEASE_TTL_MS = 3_000;
/** A call whose host died is given up. */
const ANSWER_TIMEOUT_MS = 10_000;
/** On a machine with a load of 19 on two cores it took 71 s. */
const FINISH_TIMEOUT_MS = 120_000;

interface Told {
  readonly complete: number;
  readonly page: {
    readonly workflows: ReadonlyArray<{ readonly workflowId: string; readonly status: string }>;
    readonly total: number;
    readonly nextCursor: string | null;
  };
  readonly heard: ReadonlyArray<{
    readonly id: string;
    readonly what: string;
    readonly token: string;
  }>;
}

let installation: Installation;
let hosts: { a: AgentsProcess; b: AgentsProcess };

beforeAll(async () => {
  installation = await Installation.start({
    shards: SHARDS,
    leaseTtlMs: LEASE_TTL_MS,
    module: MODULE,
  });
  hosts = { a: await installation.startHost("a"), b: await installation.startHost("b") };
  await installation.shared(2);
});
afterAll(async () => {
  // 500 instances each would be snapshotted on the way out, for nobody.
  await hosts.a.kill();
  await hosts.b.kill();
  await installation.stop();
});

/**
 * Asked again until it is answered: a host that dies takes its calls along. Starting again starts
 * nothing.
 */
function ask(office: string, query = ""): Promise<Told> {
  const url = `${installation.gateway.url}/agents/office/${office}${query}`;
  return pollUntil(
    `${office} answers`,
    async () => {
      try {
        const response = await fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
        if (!response.ok) return { done: false, saw: `${response.status}` };
        return { done: true, value: (await response.json()) as Told };
      } catch (error) {
        return { done: false, saw: String(error) };
      }
    },
    { timeoutMs: FINISH_TIMEOUT_MS, intervalMs: 200 },
  );
}

/**
 * The host dies in the middle of everything; the other takes all of it over; then it comes back.
 */
async function killAndRestart(name: "a" | "b"): Promise<void> {
  await hosts[name].kill();
  await installation.shared(1, 30_000);
  hosts[name] = await installation.startHost(name);
}

test(
  "killing hosts under 1,000 workflows loses and repeats nothing",
  async () => {
    const offices = Array.from({ length: OFFICES }, (_, n) => `office-${n}`);
    const startMs = performance.now();
    await Promise.all(offices.map((office) => ask(office, `?start=${EACH}`)));
    const startedMs = performance.now();
    await killAndRestart("a");
    await killAndRestart("b");
    await pollUntil(
      "every workflow has reported its end",
      async () => {
        const told = await Promise.all(offices.map((office) => ask(office)));
        const complete = told.reduce((sum, each) => sum + each.complete, 0);
        return complete >= OFFICES * EACH || { done: false, saw: `${complete} complete` };
      },
      { timeoutMs: FINISH_TIMEOUT_MS, intervalMs: 500 },
    );
    const ms = { start: startedMs - startMs, all: performance.now() - startMs };
    console.log(`1,000 workflows, two hosts killed: ${JSON.stringify(ms)}`);

    for (const office of offices) {
      const wanted = Array.from({ length: EACH }, (_, n) => `${office}-${n}`);
      const { heard, complete } = await ask(office);
      expect(complete).toBe(EACH);
      const listed: string[] = [];
      for (let cursor: string | null = ""; cursor !== null;) {
        const { page }: Told = await ask(office, cursor === "" ? "" : `?cursor=${cursor}`);
        expect(page.total).toBe(EACH);
        for (const { workflowId, status } of page.workflows) {
          expect([workflowId, status]).toEqual([workflowId, "complete"]);
          listed.push(workflowId);
        }
        cursor = page.nextCursor === null ? null : encodeURIComponent(page.nextCursor);
      }
      expect(listed.toSorted()).toEqual(wanted.toSorted());
      for (const id of wanted) {
        const own = heard.filter((each) => each.id === id);
        // An event whose attempt died with a host may be overtaken by the end.
        const [first, ...others] = own.filter(({ what }) => what === "first");
        expect(others).toEqual([]);
        const all = own.filter(({ what }) => what !== "first");
        expect(all.map(({ what }) => what)).toEqual(["all first", "all second", "all third"]);
        expect(first?.token).toBe(all[0]?.token);
      }
    }
    await expectEndedOnce(offices);
  },
  FINISH_TIMEOUT_MS + 60_000,
);

/** Journals of instances: one end each; nothing lies in the dead letters. */
async function expectEndedOnce(offices: ReadonlyArray<string>): Promise<void> {
  const { journal } = installation.ports;
  for (const office of offices.slice(0, 2))
    for (let n = 0; n < EACH; n++) {
      let ends = 0;
      const id = agentId("DeliveryWorkflow", `${office}-${n}`);
      for await (const { data } of journal.read(id, { fromSeq: 1 as Sequence }))
        for (const { cause } of decodeEvent(data).head.turns)
          if (cause.kind === "workflow" && cause.type === "complete") ends++;
      expect([id.name, ends]).toEqual([id.name, 1]);
    }
}
