/** The console's pages in a real Chromium, on a console that runs as a separate process. */
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { launchChromium } from "../kit/chromium.ts";
import { pollUntil } from "../kit/poll.ts";
import { faultsOf } from "./accessible.ts";
import { DESK, NoteConsole, TOKEN, type Turn } from "./NoteConsole.ts";
import { openPage, pressAndConfirm } from "./openPage.ts";
import { storeEvent } from "./serveConsole.ts";

let notes: NoteConsole;
let browser: Browser;
beforeAll(async () => {
  notes = await NoteConsole.start();
  await notes.write();
  browser = await launchChromium();
});
afterAll(async () => {
  await browser?.close();
  await notes?.stop();
});

const open = (path?: string) => openPage(browser, { url: notes.url, token: TOKEN, path });
const desk = `agents/NoteAgent/${encodeURIComponent("on/the desk")}`;
const secondTurn = async () =>
  (await notes.get<Turn[]>(`${DESK}/history`)).find((turn) => turn.state?.text === "second")!;

it("goes back to any turn: what it changed, state and rows then; every view has a link", async () => {
  const { page, broken } = await open();
  expect(page.url()).toBe(`${notes.url}/`);
  await page.getByRole("link", { name: "Agents", exact: true }).click();
  await page.getByRole("link", { name: "NoteAgent/on/the desk" }).click();
  const { seq } = await secondTurn();
  await page.getByRole("link", { name: String(seq), exact: true }).click();
  expect(page.url()).toBe(`${notes.url}/#/${desk}/turns/${seq}`);
  const changes = page.getByRole("region", { name: "Changes of the state" });
  await changes.getByText('"second"').waitFor();
  expect(await changes.innerText()).toContain("state.text");
  await page.getByRole("region", { name: "Changes of rows" }).getByText("second").waitFor();
  await page.reload();
  await changes.getByText('"first"').waitFor();
  await page.getByRole("link", { name: "tables after it" }).click();
  await page.getByRole("button", { name: "notes" }).click();
  const rows = page.getByRole("region", { name: "Rows" });
  await rows.getByRole("cell", { name: "second" }).waitFor();
  expect(await rows.getByRole("cell", { name: "third" }).count()).toBe(0);
  await page.goBack();
  await page.goBack();
  await changes.getByText('"first"').waitFor();
  await page.goto(`${notes.url}/#/${desk}/why?path=state.by.name`);
  const writes = page.getByRole("region", { name: /Turns that wrote/ });
  await writes.getByRole("cell", { name: '"bob"' }).first().waitFor();
  expect(await writes.getByRole("row").count()).toBe(3);
  await page.goto(`${notes.url}/#/${desk}/schedules`);
  await page.getByRole("cell", { name: "remind" }).waitFor();
  expect(broken).toEqual([]);
  await page.close();
});

it("shows new turns and agents by itself, and never discards what somebody types", async () => {
  const { page, broken } = await open(`${desk}/tables`);
  const query = page.getByLabel("Query", { exact: true });
  await query.fill("SELECT half of");
  const list = await browser.newPage();
  await list.goto(`${notes.url}/#token=${encodeURIComponent(TOKEN)}`);
  await list.getByRole("link", { name: "Agents", exact: true }).click();
  await list.getByLabel("Name contains").fill("NEW");
  const timeline = await browser.newPage();
  await timeline.goto(`${notes.url}/#token=${encodeURIComponent(TOKEN)}`);
  await timeline.goto(`${notes.url}/#/${desk}`);
  await timeline.getByText("live", { exact: true }).waitFor();
  const turns = timeline.getByRole("region", { name: "Turns" }).getByRole("row");
  await turns.nth(3).waitFor();
  const before = await turns.count();
  await notes.call("on/the desk", "write", "<b>fourth</b>", "bob");
  await notes.call("a new one", "write", "hello", "eve");
  await pollUntil("the new turn", async () => {
    const found = await turns.count();
    return found === before + 1 || { done: false, saw: found };
  });
  await list.getByRole("link", { name: "NoteAgent/a new one" }).waitFor();
  expect(await list.getByLabel("Name contains").inputValue()).toBe("NEW");
  expect(await query.inputValue()).toBe("SELECT half of");
  await page.reload();
  expect(await query.inputValue()).toBe("SELECT half of");
  expect(broken).toEqual([]);
  await Promise.all([page.close(), list.close(), timeline.close()]);
});

it("finds agents by a query over all of them; the query has a link, and its rows lead to the agents", async () => {
  const { page } = await open("query");
  await page.getByLabel("Query", { exact: true }).fill("SELECT class, name FROM agents");
  await page.getByRole("button", { name: "Run" }).click();
  await page.getByRole("link", { name: "NoteAgent/on/the desk" }).waitFor();
  await page.reload();
  await page.getByRole("link", { name: "NoteAgent/on/the desk" }).click();
  await page.getByRole("heading", { name: "NoteAgent on/the desk" }).waitFor();
  await page.goto(`${notes.url}/#/query?sql=${encodeURIComponent("DELETE FROM NoteAgent")}`);
  await page.getByRole("alert").filter({ hasText: "The statement writes" }).waitFor();
  await page.close();
  expect(await notes.ask("/api/query?sql=SELECT+1+FROM+NoteAgents")).toMatchObject({ status: 404 });
});

it("pages lists of any length, and shows dead letters in their own view, singly or in bulk", async () => {
  const seqs: number[] = [];
  for (let n = 0; n < 230; n++)
    seqs.push(await storeEvent(notes.installation.ports.journal, `bulk ${String(n).padStart(3, "0")}`, { turns: 0, after: 0 })); // prettier-ignore
  const { page, broken } = await open("agents?class=BulkAgent&text=bulk");
  const rows = page.getByRole("region", { name: "Agents", exact: true }).getByRole("row");
  const shows = (count: number) =>
    pollUntil(`${count} agents`, async () => {
      const found = (await rows.count()) - 1;
      return found === count || { done: false, saw: found };
    });
  await shows(100);
  await page.getByRole("button", { name: "More" }).click();
  await shows(200);
  // The first page has another last agent now.
  await storeEvent(notes.installation.ports.journal, "bulk", { turns: 0, after: 0 });
  await shows(201);
  await page.getByRole("button", { name: "More" }).click();
  await shows(231);
  expect(await page.getByRole("button", { name: "More" }).count()).toBe(0);
  // In pages that nobody has asked for again: an agent that was there, and a new one.
  await storeEvent(notes.installation.ports.journal, "bulk 222", { turns: 1, after: seqs[222]! });
  await storeEvent(notes.installation.ports.journal, "bulk 150 and a half", { turns: 0, after: 0 });
  await shows(232);
  await rows.filter({ hasText: "BulkAgent/bulk 222" }).getByRole("cell", { name: "2", exact: true }).waitFor(); // prettier-ignore
  await notes.call("in a drawer", "write", "again", "nobody");
  for (const _ of [1, 2]) await notes.call("in a drawer", "enqueue");
  await page.getByRole("link", { name: "Dead letters" }).click();
  await page.getByRole("button", { name: "Select all 2" }).click();
  await notes.call("in a drawer", "write", "now", "the boss");
  await pressAndConfirm(page, "Redrive");
  await page.getByText("No dead letters.").waitFor();
  expect(await notes.get("/api/dead")).toEqual([]);
  expect(broken).toEqual([]);
  await page.close();
});

it("runs dead letters on forks first, and then redrives those that succeeded there", async () => {
  await notes.call("in a drawer", "write", "again", "nobody");
  await notes.call("in a drawer", "enqueue");
  await notes.call("on a shelf", "enqueue");
  const { page, broken } = await open("dead");
  await page.getByRole("button", { name: "Select all 2" }).click();
  await notes.call("in a drawer", "write", "now", "the boss");
  await pressAndConfirm(page, /^Run on a fork/);
  const section = page.getByRole("region", { name: "On a fork first" });
  await section.getByText("1 of 2 inputs failed.").waitFor();
  expect(await section.getByRole("article").allInnerTexts()).toEqual([
    expect.stringMatching(/^done \d+ on a fork of NoteAgent\/in a drawer at turn \d+$/m),
    expect.stringMatching(/^fails \d+ on a fork of NoteAgent\/on a shelf .*: Error: nobody may be reminded$/m),
  ]); // prettier-ignore
  expect(await notes.get("/api/dead")).toHaveLength(2);
  await pressAndConfirm(section, "Redrive the 1 that did not fail");
  await section.getByText("1 input stored in the inbox again.").waitFor();
  const left = await notes.get<{ id: number; name: string }[]>("/api/dead");
  expect(left.map(({ name }) => name)).toEqual(["on a shelf"]);
  const views = ["dead", `dead/${left[0]!.id}`];
  expect(await faultsOf(browser, { url: notes.url, token: TOKEN }, views)).toEqual([]);
  await notes.ask(`/api/dead/${left[0]!.id}/drop`, { method: "POST" });
  const wrong = await notes.ask("/api/dead/1,2/on-fork?module=other.ts", { method: "POST" });
  expect([wrong.status, wrong.text]).toEqual([400, expect.stringContaining("started without it")]); // prettier-ignore
  expect(broken).toEqual([]);
  await page.close();
});

it("shows that an answer failed beside the last one, and asks again by itself", async () => {
  await notes.call("on a shelf", "enqueue");
  const { page } = await open();
  const failing = new Set(["overview"]);
  await page.route(/\/api\/(overview|dead)/, (route) =>
    failing.delete(/\/api\/(\w+)/.exec(route.request().url())![1]!)
      ? route.fulfill({ status: 500, json: { error: "failed by chance" } })
      : route.continue(),
  );
  await page.goto(`${notes.url}/#/dead`);
  const section = page.getByRole("region", { name: "On a fork first" });
  await section.getByRole("alert").filter({ hasText: "failed by chance" }).waitFor();
  await page.getByRole("button", { name: "Select all 1" }).click();
  await pressAndConfirm(section, /^Run on a fork/);
  await section.getByText("1 of 1 input failed.").waitFor();
  failing.add("dead");
  await notes.call("on a shelf", "enqueue");
  await page.getByRole("alert").filter({ hasText: "failed by chance" }).waitFor();
  expect(await section.getByRole("article").count()).toBe(1);
  await page.getByRole("button", { name: "Select all 2" }).waitFor();
  expect(await page.getByRole("alert").count()).toBe(0);
  for (const { id } of await notes.get<{ id: number }[]>("/api/dead"))
    await notes.ask(`/api/dead/${id}/drop`, { method: "POST" });
  await page.close();
});

it("renders a few screens of a long timeline at once: older turns page by page, and back to the newest", async () => {
  let last = 0;
  for (let n = 0; n < 12; n++) last = await storeEvent(notes.installation.ports.journal, "long", { turns: 99, after: last }); // prettier-ignore
  const { page, broken } = await open("agents/BulkAgent/long");
  const rows = page.locator("main tbody tr");
  await page
    .locator("main tbody tr", { hasText: String(last) })
    .first()
    .waitFor();
  const older = page.getByRole("button", { name: "Older" });
  const newest = page.getByRole("button", { name: "Newest" });
  while ((await older.count()) > 0) {
    const before = await rows.last().innerText();
    await older.click();
    await pollUntil("older turns", async () => (await older.count()) === 0 || (await rows.last().innerText()) !== before); // prettier-ignore
    expect(await rows.count()).toBeLessThanOrEqual(1_000);
  }
  expect(await rows.count()).toBe(1_000);
  expect(await rows.first().innerText()).not.toMatch(new RegExp(`^${last}\\b`));
  await newest.click();
  await pollUntil("the newest turns", async () => new RegExp(`^${last}\\b`).test(await rows.first().innerText())); // prettier-ignore
  expect(await newest.count()).toBe(0);
  expect(broken).toEqual([]);
  await page.close();
});

it("loses no turn between two pages of a timeline, whatever an event contains, and shows one event whole", async () => {
  let after = 0;
  for (const turns of [30, 250, 40, 90])
    after = await storeEvent(notes.installation.ports.journal, "thick", { turns, after });
  const { page, broken } = await open("agents/BulkAgent/thick");
  const rows = page.locator("main tbody tr");
  const older = page.getByRole("button", { name: "Older" });
  for (const count of [130, 380, 410]) {
    await pollUntil(`${count} turns`, async () => {
      const found = await rows.count();
      return found === count || { done: false, saw: found };
    });
    // Pressed twice, it still asks for one page.
    if (count < 410) await older.dblclick();
  }
  expect(await older.count()).toBe(0);
  await rows.nth(200).getByRole("link").click();
  await pollUntil("all turns of the event", async () => {
    const found = await page.locator("main article").count();
    return found === 250 || { done: false, saw: found };
  });
  expect(broken).toEqual([]);
  await page.close();
}, 60_000);

it("meets WCAG AA in dark and light, and fits a phone, in every view", async () => {
  const { seq } = await secondTurn();
  const views = [
    "", "deliveries", "agents", "dead", desk, `${desk}/turns/${seq}`, `${desk}/state`,
    `${desk}/tables?query=SELECT+1`, `${desk}/schedules`, `${desk}/why?path=state.text`,
    `${desk}/diff?from=1`, `${desk}/rerun`, "query?sql=SELECT+1", "nowhere",
  ]; // prettier-ignore
  const place = { url: notes.url, token: TOKEN };
  expect(await faultsOf(browser, place, views)).toEqual([]);
});

it("can be used with the keyboard alone", async () => {
  const { page } = await open();
  await page.clock.install();
  await page.locator("body").press("Tab");
  for (let n = 0; n < 12; n++) {
    if ((await page.evaluate("document.activeElement.textContent")) === "Agents") break;
    await page.keyboard.press("Tab");
  }
  await page.keyboard.press("Enter");
  await page.locator("h1:focus", { hasText: "Agents" }).waitFor();
  await page.keyboard.press("Tab");
  await page.keyboard.press("Tab");
  // One request for the typed text once typing pauses; on the page's clock, letters come quickly.
  const asked: string[] = [];
  page.on("request", (request) => asked.push(new URL(request.url()).search));
  await page.clock.pauseAt(Date.now() + 60_000);
  for (const letter of "desk") {
    await page.keyboard.type(letter);
    await page.clock.runFor(10);
  }
  await page.clock.resume();
  await page.getByRole("link", { name: "NoteAgent/on/the desk" }).waitFor();
  await page.getByRole("link", { name: "NoteAgent/in a drawer" }).waitFor({ state: "detached" });
  expect(asked.filter((query) => query.includes("text="))).toEqual(["?text=desk&limit=100"]);
  await page.close();
});

it("says that it is not connected while the broker does not answer", async () => {
  const { page } = await open();
  const badge = page.locator("header").getByRole("status");
  const says = (text: string) =>
    pollUntil(`the page says ${text}`, async () => {
      const saw = await badge.textContent();
      return saw === text || { done: false, saw };
    });
  await says("live");
  const { nats } = notes.installation;
  nats.freeze();
  await says("not connected").finally(() => nats.thaw());
  await says("live");
  await page.close();
});
