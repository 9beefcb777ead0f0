/** The console over many agents and a long timeline: processor time of each view. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { launchChromium } from "../kit/chromium.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import { BenchFailed, type Bench, type BenchRow } from "./Bench.ts";
import { durabilityOf, openBenchHost } from "./rig/BenchHost.ts";
import { ROOT } from "./rig/findFloor.ts";
import { benchAgent, storeAgents, storeTurn } from "./rig/storeAgents.ts";
import { median } from "./rig/statistics.ts";

const AGENTS_DEFAULT = 100_000;
/** The length of the long timeline. */
const TURNS = 10_000;
const TOKEN = "a token for this bench";
/** Each page of a timeline. */
const PAGE = 100;
const TICKS_PER_SECOND = 100; // of /proc, on Linux
/** The page's first drawing of a long list. */
const WAIT_MS = 60_000;

interface Served {
  readonly url: string;
  readonly pid: number;
  readonly stop: () => Promise<void>;
}

async function serve(nats: string, data: string): Promise<Served> {
  const child = spawn(
    process.execPath,
    [join(ROOT, "dist/services/cli/main.js"), "console", "--port", "0", "--data", data],
    {
      env: { PATH: process.env["PATH"] ?? "", NATS_URL: nats, AGENTS_CONSOLE_TOKEN: TOKEN },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  let said = "";
  child.stderr.on("data", (chunk: Buffer) => (said += String(chunk)));
  const ended = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const url = await pollUntil("the console serves", () => {
    const found = /http:\/\/[^/]+/.exec(said)?.[0];
    return found === undefined ? { done: false, saw: said } : { done: true, value: found };
  });
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    await ended;
  };
  return { url, pid: child.pid!, stop };
}

const cpuMs = (pid: number): number => {
  const fields = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1]!.split(" ");
  return ((Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND) * 1_000;
};

export const consoleBench: Bench = {
  name: "console",
  about: `the console over --agents (${AGENTS_DEFAULT.toLocaleString("en")}) and a timeline of ${TURNS.toLocaleString("en")} turns`,
  run: async (options) => {
    const agents = options.agents ?? AGENTS_DEFAULT;
    const host = await openBenchHost(options);
    const folder = tempFolder("bench-console");
    const rows: BenchRow[] = [];
    const browser = await launchChromium();
    let served: Served | undefined;
    try {
      options.say(`storing ${agents} agents, and ${TURNS} turns of one`);
      const seqs = await storeAgents(host, agents, 1);
      let last = seqs[0]!;
      for (let turn = 1; turn < TURNS; turn++) last = await storeTurn(host, 0, turn, last);
      served = await serve(host.url, folder.path);
      const { url, pid } = served;
      const ask = async (path: string): Promise<unknown[]> => {
        const response = await fetch(`${url}/api/${path}`, { headers: { authorization: `Bearer ${TOKEN}` } }); // prettier-ignore
        if (!response.ok) throw new BenchFailed(`${path}: ${await response.text()}`);
        return (await response.json()) as unknown[];
      };
      const measure = async (name: string, path: string): Promise<void> => {
        const took: Array<{ readonly ms: number; readonly cpu: number }> = [];
        for (let round = 0; round < options.rounds; round++) {
          const [startMs, startCpu] = [performance.now(), cpuMs(pid)];
          await ask(path);
          took.push({ ms: performance.now() - startMs, cpu: cpuMs(pid) - startCpu });
        }
        const values = {
          ms: median(took.map(({ ms }) => ms)),
          "console CPU ms": median(took.map(({ cpu }) => cpu)),
        };
        options.say(`  ${name}: ${JSON.stringify(values)}`);
        rows.push({ name, values });
      };
      const one = benchAgent(0);
      const timeline = `agents/${one.class}/${one.name}/history`;
      await measure("overview", "overview");
      await measure("agents, first page", "agents?limit=100");
      await measure("agents, found by text", "agents?limit=100&text=99999");
      await measure("agents, a page in the midst", `agents?limit=100&after=${one.class}/agent-5`);
      await measure("timeline, the last turns", `${timeline}?limit=${PAGE}`);
      await measure("timeline, a page in the midst", `${timeline}?limit=${PAGE}&to=${last - TURNS / 2}`); // prettier-ignore
      await measure("timeline, what is new (nothing)", `${timeline}?limit=5000&from=${last + 1}`);
      const page = await browser.newPage({ bypassCSP: true }); // the bench looks by scripts
      const client = await page.context().newCDPSession(page);
      await client.send("Performance.enable");
      const mainMs = async (): Promise<number> => {
        const { metrics } = await client.send("Performance.getMetrics");
        return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0) * 1_000;
      };
      const onPage = async (name: string, act: (page: Page) => Promise<void>): Promise<void> => {
        const [startMs, startCpu, startPage] = [performance.now(), cpuMs(pid), await mainMs()];
        await act(page);
        const values = {
          ms: performance.now() - startMs,
          "console CPU ms": cpuMs(pid) - startCpu,
          "page CPU ms": (await mainMs()) - startPage,
        };
        options.say(`  ${name}: ${JSON.stringify(values)}`);
        rows.push({ name, values });
      };
      await page.goto(`${url}/#token=${encodeURIComponent(TOKEN)}`);
      await page.getByText(agents.toLocaleString("en").replaceAll(",", "")).first().waitFor({ timeout: WAIT_MS }); // prettier-ignore
      await onPage("page: the list of agents", async () => {
        await page.goto(`${url}/#/agents`);
        await page.getByRole("row").nth(PAGE).waitFor({ timeout: WAIT_MS });
      });
      await onPage("page: a name typed", async () => {
        await page.getByLabel("Name contains").pressSequentially("agent-4321", { delay: 50 });
        await page.getByRole("link", { name: "BenchAgent/agent-4321", exact: true }).waitFor({ timeout: WAIT_MS }); // prettier-ignore
      });
      const until = (condition: string): Promise<unknown> =>
        page.waitForFunction(condition, undefined, { timeout: WAIT_MS, polling: 20 });
      const turnAt = (row: "first" | "last") =>
        `Number(document.querySelector("main tbody tr:${row}-child a")?.innerText)`;
      const button = (text: string) =>
        `[...document.querySelectorAll("main button")].find(({ innerText }) => innerText === "${text}")`;
      await onPage("page: the timeline", async () => {
        await page.goto(`${url}/#/agents/${one.class}/${one.name}`);
        await until(`${turnAt("first")} === ${last}`);
      });
      let pages = 0;
      await onPage("page: all older turns, page by page", async () => {
        while ((await page.evaluate(`${button("Older")} !== undefined`)) === true) {
          const oldest = Number(await page.evaluate(turnAt("last")));
          await page.evaluate(`${button("Older")}.click()`);
          await until(`${turnAt("last")} < ${oldest} || ${button("Older")} === undefined`);
          pages++;
        }
      });
      if (pages < TURNS / PAGE - 1) throw new BenchFailed(`${pages} pages of older turns`);
      await onPage("page: back to the newest", async () => {
        await page.evaluate(`${button("Newest")}.click()`);
        await until(`${turnAt("first")} === ${last}`);
      });
      await onPage("page: one new turn", async () => {
        last = await storeTurn(host, 0, TURNS, last);
        await until(`${turnAt("first")} === ${last}`);
      });
      return {
        title: `the console, ${agents.toLocaleString("en")} agents, ${TURNS.toLocaleString("en")} turns`,
        server: host.serverVersion,
        durability: durabilityOf(options),
        rows,
        raw: rows,
        notes: ["CPU of the console's process; of the page, its main thread. ms: with the machine's other work."], // prettier-ignore
      };
    } finally {
      await browser.close();
      await served?.stop();
      await host.close();
      folder.remove();
    }
  },
};
