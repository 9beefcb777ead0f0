/** The console under names and statements that should break it: its API, its page in Chromium. */
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { launchChromium } from "../kit/chromium.ts";
import { Installation } from "../kit/Installation.ts";
import { openPage, type PageOptions } from "./openPage.ts";
import { serveConsole, type Served } from "./serveConsole.ts";

const MODULE = fileURLToPath(new URL("./noteModule.ts", import.meta.url));
const TOKEN = "a token for these tests";
const DESK = `/api/agents/note-agent/${encodeURIComponent("on/the desk")}`;

let installation: Installation;
let served: Served;
let browser: Browser;
let call: ReturnType<Installation["caller"]>;
beforeAll(async () => {
  installation = await Installation.start({ shards: 4, module: MODULE, gateway: false });
  call = installation.caller("NoteAgent");
  await (await installation.startHost("host")).ready();
  served = await serveConsole(installation.nats.url, ["--data", installation.pathOf("host")], { AGENTS_CONSOLE_TOKEN: TOKEN }); // prettier-ignore
  browser = await launchChromium();
  await call("on/the desk", "write", "first", "ann");
});
afterAll(async () => {
  await browser?.close();
  served?.process.kill();
  await installation?.stop();
});

const ask = async (path: string, init: RequestInit = {}) => {
  const headers = { authorization: `Bearer ${TOKEN}` };
  const response = await fetch(served.url + path, { ...init, headers });
  return { status: response.status, text: await response.text() };
};

const open = (path: string, more?: PageOptions) =>
  openPage(browser, { url: served.url, token: TOKEN, path }, more);

it("the console answers twenty tabs at once, and serves others after those have left", async () => {
  const sql = "/api/query?sql=SELECT+count(*)+AS+n+FROM+NoteAgent";
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(sql)));
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  const endless = "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r"; // prettier-ignore
  const left = new AbortController();
  const slow = ask(`${DESK}/sql?query=${encodeURIComponent(endless)}`, { signal: left.signal });
  const others = await Promise.all(Array.from({ length: 5 }, () => ask(sql)));
  expect(others.map(({ status }) => status)).toEqual(others.map(() => 200));
  left.abort();
  await expect(slow).rejects.toThrow();
  expect(await ask("/api/query?sql=SELECT+1%00")).toMatchObject({
    status: 400,
    text: expect.stringContaining("character NUL") as string,
  });
  expect(await ask(sql)).toMatchObject({ status: 200, text: answers[0]!.text });
});

it("names, states and rows from attackers are shown as text", async () => {
  const name = "<img src=x onerror=hacked=1>";
  await call(name, "write", "</script><script>hacked=1</script>", "<svg onload=hacked=1>");
  const { page, broken } = await open("agents?text=img");
  await page.getByRole("link", { name: `NoteAgent/${name}` }).click();
  const path = `agents/NoteAgent/${encodeURIComponent(name)}`;
  await page.getByRole("region", { name: "Turns" }).waitFor();
  await page.goto(`${served.url}/#/${path}/state`);
  await page.getByText("</script><script>hacked=1</script>").first().waitFor();
  const query = encodeURIComponent(
    "SELECT text, '<img src=x onerror=hacked=1>' AS \"<b>\" FROM notes",
  );
  await page.goto(`${served.url}/#/${path}/tables?query=${query}`);
  await page.getByRole("columnheader", { name: "<b>" }).waitFor();
  await page.goto(`${served.url}/#/${path}/why?path=${encodeURIComponent("state.<img src=x onerror=hacked=1>")}`); // prettier-ignore
  await page.getByText("it has never existed").waitFor();
  expect(await page.evaluate("typeof hacked")).toBe("undefined");
  expect(await page.locator("main img, main svg, main script").count()).toBe(0);
  expect(broken).toEqual([]);
  await page.close();
});

it("agents whose names a URL can't have are shown", async () => {
  for (const name of [".", ".."]) {
    await call(name, "write", `the text of ${name}`, "ann");
    const { page, broken } = await open(`agents/NoteAgent/${name}/state?at=9999`);
    await page.getByText(`the text of ${name}`, { exact: false }).first().waitFor();
    expect(broken).toEqual([]);
    await page.close();
  }
});

it("names that break lines, change text direction or are very long stay within their cells", async () => {
  const names = ["two\nlines", "\u202egnp.exe", "long ".repeat(200)];
  for (const name of names) await call(name, "write", "x", "ann");
  const { page, broken } = await open("query", { viewport: { width: 375, height: 700 } });
  const width = () => page.evaluate("document.documentElement.scrollWidth - innerWidth");
  for (const name of names) {
    const sql = `SELECT class, name, 1 AS after FROM agents WHERE name = '${name}'`;
    await page.goto(`${served.url}/#/query?sql=${encodeURIComponent(sql)}`);
    await page.getByRole("cell", { name: "1", exact: true }).waitFor();
    expect(await width()).toBe(0);
    await page.getByRole("region", { name: "Rows" }).getByRole("link").click();
    await page.getByRole("region", { name: "Turns" }).waitFor();
    expect(await page.locator("main h1").textContent()).toBe(`NoteAgent ${name}`);
    expect(await width()).toBe(0);
  }
  expect(broken).toEqual([]);
  await page.close();
});

it("large values are shown truncated, and too large ones are refused", async () => {
  const { page, broken } = await open("query");
  const show = (sql: string) => page.goto(`${served.url}/#/query?sql=${encodeURIComponent(sql)}`);
  await show("SELECT printf('%.*c', 1000000, 'x') AS x");
  await page.getByText("… (1,000,000 characters)").waitFor();
  const numbers = "WITH RECURSIVE r(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM r WHERE n < 50000)"; // prettier-ignore
  await show(`${numbers} SELECT n FROM r`);
  await page.getByText("The first 1000 of 50000 rows").waitFor();
  expect(broken).toEqual([]);
  await show(`${numbers} SELECT printf('%.*c', 1000000, 'x') FROM r`);
  await page.getByRole("alert").filter({ hasText: "larger than 16 MiB" }).waitFor();
  await page.close();
});
