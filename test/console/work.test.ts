/** An agent's work in the console and on the command line. Reading it activates no agent. */
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { SocketInfo } from "../../schemas/bus/GatewayMessage.ts";
import type { ConnectionsReply } from "../../schemas/bus/SocketLists.ts";
import { listConnections } from "../../core/connection/listConnections.ts";
import type { Workflows } from "../../services/cli/commands/workflows.ts";
import { launchChromium } from "../kit/chromium.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { TestSocket } from "../system/kit.ts";
import { faultsOf } from "./accessible.ts";
import { openPage, type PageOptions } from "./openPage.ts";
import { shootScreen } from "./shootScreen.ts";
import { serveConsole, type Served } from "./serveConsole.ts";

const MODULE = fileURLToPath(new URL("./workModule.ts", import.meta.url));
const TOKEN = "a token for these tests";

let installation: Installation;
let served: Served;
let browser: Browser;
let call: ReturnType<Installation["caller"]>;
beforeAll(async () => {
  installation = await Installation.start({ shards: 4, module: MODULE });
  call = installation.caller("TripAgent");
  await (await installation.startHost("host")).ready();
  served = await serveConsole(installation.nats.url, ["--data", installation.pathOf("host")], { AGENTS_CONSOLE_TOKEN: TOKEN }); // prettier-ignore
  browser = await launchChromium();
});
afterAll(async () => {
  await browser?.close();
  served?.process.kill();
  await installation?.stop();
});

const open = (path: string, more?: PageOptions) =>
  openPage(browser, { url: served.url, token: TOKEN, path }, more);

/** As `agents workflows` prints it, of the instance once it is in that state. */
const workflows = async (className: string, name: string): Promise<Workflows> => {
  const { code, out, err } = await installation.agents("workflows", className, name, "--json");
  expect([code, err]).toEqual([0, ""]);
  return JSON.parse(out) as Workflows;
};
const untilStatus = (id: string, status: string): Promise<Workflows> =>
  pollUntil(`${id} is ${status}`, async () => {
    const { code, out, err } = await installation.agents("workflows", "TripWorkflow", id, "--json");
    const found = code === 0 ? (JSON.parse(out) as Workflows) : undefined;
    const seen = found?.run;
    const isThere = seen?.status === status && seen.steps.length >= 4;
    return isThere ? { done: true, value: found! } : { done: false, saw: seen ?? err };
  });

describe("a workflow in the console", () => {
  it("is a graph of parallel branches, what it waits for, and what was undone, updated live", async () => {
    await call("ann", "start", "trip-1");
    await untilStatus("trip-1", "waiting");
    const { page, broken } = await open("agents/TripAgent/ann/workflows");
    const started = page.getByRole("region", { name: "Started workflows" });
    await started.getByText('{"party":2}').waitFor();
    await started.getByRole("link", { name: "TRIP_WORKFLOW trip-1" }).click();
    expect(page.url()).toBe(`${served.url}/#/agents/TripWorkflow/trip-1/workflows`);
    const step = (name: string) => page.getByRole("region", { name: "Steps" }).getByRole("listitem").filter({ has: page.getByRole("heading", { name }) }); // prettier-ignore
    await step("the money").getByText("waiting").waitFor();
    const [flight, hotel, money] = await Promise.all(["book flight", "book hotel", "the money"].map((name) => step(name).boundingBox())); // prettier-ignore
    expect(flight!.y).toBe(hotel!.y);
    expect(hotel!.x).toBeGreaterThan(flight!.x + flight!.width - 1);
    expect(money!.y).toBeGreaterThan(flight!.y + flight!.height - 1);
    expect(await step("book hotel").textContent()).toContain("At the same time as book flight");
    expect(await step("book flight").innerText()).toMatch(/done, .*turn \d+\s*"flight to Lisbon"/s);

    await call("ann", "pay", "trip-1");
    await step("book flight").getByText("flights are not refunded").waitFor();
    await step("send tickets").getByText("no paper").waitFor();
    await step("book hotel").getByText(/^undo done/).waitFor(); // prettier-ignore
    await page.getByText(/no paper \(undone: book hotel; the undo of book flight failed/).waitFor();
    await page.setViewportSize({ width: 1_000, height: 620 });
    await shootScreen(page, "workflow");
    // Each step has a link to the turn that stored it.
    await step("book hotel").getByRole("link").first().click();
    const rows = page.getByRole("region", { name: "Changes of rows" });
    await rows.getByText("1:book hotel").first().waitFor();
    expect(broken).toEqual([]);
    await page.close();
  });

  it("is shown by the command line as the console shows it", async () => {
    await call("bob", "start", "trip-2");
    const { run } = await untilStatus("trip-2", "waiting");
    expect(run).toMatchObject({
      workflow: "TRIP_WORKFLOW",
      agent: ["TripAgent", "bob"],
      counts: { steps: 4, done: 3, failed: 0, undone: 0 },
    });
    expect(run!.steps.map(({ name, lane, state }) => [name, lane, state])).toEqual([
      ["book flight", 0, "done"],
      ["book hotel", 1, "done"],
      ["cool off", 2, "done"],
      ["the money", 0, "waiting"],
    ]);
    const people = await installation.agents("workflows", "trip-workflow", "trip-2");
    expect(people.out).toMatch(/^TripWorkflow\/trip-2 {2}waiting {2}started \S+, by TripAgent\/bob as TRIP_WORKFLOW$/m); // prettier-ignore
    expect(people.out).toMatch(/^ {3}2 {4}do book hotel {2}done, \d+ ms, turns? \d+/m);
    expect(people.out).toMatch(/waitForEvent the money for paid {2}waiting, until \S+, turn \d+$/m);
    const { started, startedTotal } = await workflows("TripAgent", "bob");
    expect([startedTotal, started[0]]).toMatchObject([1, { class: "TripWorkflow", workflowId: "trip-2" }]); // prettier-ignore
    // As of its beginning, none had begun.
    const { code, out } = await installation.agents("workflows", "TripWorkflow", "trip-2", "--json", "--at", String(run!.steps[0]!.began!.seq - 1)); // prettier-ignore
    expect([code, (JSON.parse(out) as Workflows).run?.steps]).toEqual([0, []]);
    const wrong = await installation.agents("workflows", "TripAgent", "bob", "--cursor", "x");
    expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining("Use the cursor that")]); // prettier-ignore
  });

  it("has a link whatever the name of its binding, and says where no instance is stored", async () => {
    await call("carl", "notify", "notice-1");
    // An agent of the same name that is no instance of a workflow.
    await call("notice-1", "research");
    const classOf = async () => (await workflows("TripAgent", "carl")).started[0]?.class;
    await pollUntil("the instance is found", async () => {
      const saw = await classOf();
      return saw === "SMSNotice" || { done: false, saw };
    });
    const { page, broken } = await open("agents/TripAgent/carl/workflows");
    const started = page.getByRole("region", { name: "Started workflows" });
    await started.getByRole("link", { name: "SMSNOTICE notice-1" }).click();
    await page.getByText("Started by", { exact: true }).waitFor();
    expect(page.url()).toBe(`${served.url}/#/agents/SMSNotice/notice-1/workflows`);

    const erased = await installation.agents("erase", "SMSNotice", "notice-1", "--yes");
    expect(erased).toMatchObject({ code: 0 });
    expect(await classOf()).toBeUndefined();
    const people = await installation.agents("workflows", "TripAgent", "carl");
    expect(people.out).toMatch(/SMSNOTICE notice-1 \(no instance stored\)$/m);
    await page.goBack();
    await started.getByText("SMSNOTICE notice-1 no instance stored").waitFor();
    expect(await started.getByRole("link").count()).toBe(0);
    expect(broken).toEqual([]);
    await page.close();
  });

  it("of 2,000 steps is shown page by page, the last ones first, each page with a link", async () => {
    await call("long", "steps", 2_000);
    const { page, broken } = await open("agents/TripAgent/long/workflows");
    const steps = page.getByRole("region", { name: "Steps" }).getByRole("listitem");
    await steps.filter({ hasText: "call 2000" }).waitFor();
    expect(await steps.count()).toBe(100);
    await page.getByRole("link", { name: "Earlier steps" }).click();
    await steps.filter({ hasText: "call 1900" }).waitFor();
    expect(await steps.count()).toBe(100);
    expect(page.url()).toBe(`${served.url}/#/agents/TripAgent/long/workflows?to=1900`);
    // Every tenth runs beside the one before it.
    const boxes = await Promise.all([98, 99].map((n) => steps.nth(n).boundingBox()));
    expect(boxes[1]!.y).toBe(boxes[0]!.y);
    await page.getByRole("link", { name: "Later steps" }).click();
    await steps.filter({ hasText: "call 2000" }).waitFor();
    expect(broken).toEqual([]);
    await page.close();
  });
});

describe("fibers in the console", () => {
  it("show running fibers with their stash, finished ones, and what was undone", async () => {
    await call("cleo", "research");
    const { page, broken } = await open("agents/TripAgent/cleo/fibers");
    const fiber = (name: string) => page.getByRole("region", { name: "Fibers" }).getByRole("row").filter({ hasText: new RegExp(`^${name}`) }); // prettier-ignore
    await fiber("book").getByText("flight (undone)").waitFor();
    expect(await fiber("book").innerText()).toMatch(
      /running.*hotel, flight \(undone\)\s+no money/s,
    );
    expect(await fiber("ask").innerText()).toMatch(/running.*\{"found":\["an answer"\]\}\s+first/s);
    expect(await fiber("pack").innerText()).toContain("completed");
    const { code, out } = await installation.agents("fibers", "TripAgent", "cleo", "--limit", "1", "--skip", "2"); // prettier-ignore
    expect([code, out]).toEqual([0, expect.stringMatching(/^\S+ {2}completed {2}pack {2}\S+, until \S+\n$/)]); // prettier-ignore
    expect(broken).toEqual([]);
    await page.close();
  });
});

describe("connections in the console", () => {
  const listed = async (): Promise<ConnectionsReply> => {
    const { out, err } = await installation.agents("connections", "TripAgent", "dora", "--json");
    expect(err).toBe("");
    return JSON.parse(out) as ConnectionsReply;
  };

  it("are shown live, with tags and state, without waking a hibernating agent", async () => {
    const url = `${installation.gateway.url}/agents/trip-agent/dora`;
    const first = await TestSocket.open(`${url}?_pk=phone`);
    const { page, broken } = await open("agents/TripAgent/dora/connections");
    const row = (id: string) => page.getByRole("region", { name: "Connections" }).getByRole("row").filter({ hasText: id }); // prettier-ignore
    await row("phone").waitFor();
    expect(await row("phone").innerText()).toMatch(/20\d\d-.*traveller\s+14 bytes/s);
    await page.getByText("live", { exact: true }).waitFor();
    // As many as the client has seen and sent, in bytes; the agent answers a call with one frame.
    const message = JSON.stringify({ type: "rpc", id: "1", method: "nothing", args: [] });
    first.socket.send(message);
    await pollUntil("the call is answered", () => {
      const { frames } = first;
      return frames.some((text) => String(text).includes('"id":"1"')) || { done: false, saw: frames }; // prettier-ignore
    });
    const [bytesIn, framesOut] = [message.length, first.frames.length];
    const bytesOut = Buffer.byteLength(first.frames.join(""));
    const traffic = { framesIn: 1, bytesIn, framesOut, bytesOut };
    expect((await listed()).connections[0]!.traffic).toEqual(traffic);
    await row("phone").getByText(`1 frame, ${bytesIn} bytes`).waitFor();
    await row("phone").getByText(`${framesOut} frames, ${bytesOut} bytes`).waitFor();
    const second = await TestSocket.open(`${url}?_pk=laptop`);
    await row("laptop").waitFor();
    await pollUntil("the agent hibernates", async () => {
      const found = await listed();
      return found.agent === "hibernated" || { done: false, saw: found };
    });
    for (let n = 0; n < 3; n++) {
      const { agent, total } = await listed();
      expect([agent, total]).toEqual(["hibernated", 2]);
    }
    await page.getByText("2 open; the agent is hibernated").waitFor();
    await second.close();
    await row("laptop").waitFor({ state: "detached" });
    await first.close();
    await page.getByText("No connections.").waitFor();
    const gone = await installation.agents("connections", "TripAgent", "nobody");
    expect([gone.code, gone.out]).toEqual([3, ""]);
    expect(gone.err).toContain('There is no agent TripAgent "nobody"');
    expect(broken).toEqual([]);
    await page.close();
  });

  it("are listed a hundred at a time, however many there are", () => {
    const sockets = Array.from({ length: 5_000 }, (_, n): SocketInfo => ({ gateway: "g", sid: `s${n}`, id: `c${n}`, url: "", headers: [] })); // prettier-ignore
    const page = (skip: number, limit: number) => {
      const { total, connections } = listConnections(sockets, { skip, limit });
      return [total, connections.length, connections[0]?.id, connections.at(-1)?.id];
    };
    expect(page(0, 5_000)).toEqual([5_000, 100, "c0", "c99"]);
    expect(page(4_950, 100)).toEqual([5_000, 50, "c4950", "c4999"]);
    expect(page(5_000, 100)).toEqual([5_000, 0, undefined, undefined]);
  });
});

it("these views meet WCAG AA in dark and light, and fit a phone", async () => {
  const views = [
    "agents/TripAgent/dora/connections",
    "agents/TripAgent/cleo/fibers",
    "agents/TripAgent/ann/workflows",
    "agents/TripWorkflow/trip-1/workflows",
  ];
  expect(await faultsOf(browser, { url: served.url, token: TOKEN }, views)).toEqual([]);
});
