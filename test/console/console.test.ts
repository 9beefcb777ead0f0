/**
 * The console as operators run it: a separate process, its API, and its page in a real Chromium.
 */
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launchChromium } from "../kit/chromium.ts";
import { Installation } from "../kit/Installation.ts";
import { pollUntil } from "../kit/poll.ts";
import { faultsOf } from "./accessible.ts";
import { openPage, type PageOptions } from "./openPage.ts";
import { serveConsole, statusWith, storeEvent, type Served } from "./serveConsole.ts";

const MODULE = fileURLToPath(new URL("./noteModule.ts", import.meta.url));
const TOKEN = "a token for these tests";

let installation: Installation;
let served: Served;
let call: ReturnType<Installation["caller"]>;

const serve = (args: ReadonlyArray<string>, env: Record<string, string>): Promise<Served> =>
  serveConsole(installation.nats.url, args, env);

const bearer = { authorization: `Bearer ${TOKEN}` };
const ask = async (path: string, init: RequestInit = {}) => {
  const response = await fetch(served.url + path, {
    redirect: "manual",
    ...init,
    headers: { ...bearer, ...(init.headers as Record<string, string>) },
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
};
const get = async <A>(path: string): Promise<A> => JSON.parse((await ask(path)).text) as A;

beforeAll(async () => {
  installation = await Installation.start({ shards: 4, module: MODULE, gateway: false });
  call = installation.caller("NoteAgent");
  await (await installation.startHost("host")).ready();
  const args = ["--data", installation.pathOf("host"), "--rerun", "test/console/noteModule.ts"];
  served = await serve(args, { AGENTS_CONSOLE_TOKEN: TOKEN });
  await call("on/the desk", "write", "first", "ann");
  await call("on/the desk", "write", "second", "ann");
  await call("on/the desk", "write", "third", "bob");
  await call("on/the desk", "plan");
  await call("in a drawer", "enqueue");
});
afterAll(async () => {
  served?.process.kill();
  await installation?.stop();
});

const DESK = `/api/agents/note-agent/${encodeURIComponent("on/the desk")}`;
interface Turn {
  readonly seq: number;
  readonly state?: { readonly text: string };
}

describe("the console's API", () => {
  it("serves only an empty page without the token, and accepts it by neither URL nor cookie", async () => {
    for (const [path, method] of [
      ["/api/agents", "GET"],
      ["/api/agents?token=" + encodeURIComponent(TOKEN), "GET"],
      ["/api/dead/1/drop", "POST"],
      ["/nothing", "GET"],
    ] as const) {
      const cookie = `agents_console=${encodeURIComponent(TOKEN)}`;
      const bare = await fetch(served.url + path, { method, headers: { cookie } });
      expect([path, bare.status]).toEqual([path, 401]);
      expect(await bare.text()).not.toContain("Note");
    }
    const page = await fetch(`${served.url}/?token=${encodeURIComponent(TOKEN)}`);
    expect([page.status, page.headers.get("set-cookie")]).toEqual([200, null]);
    const text = await page.text();
    expect(text).not.toContain(TOKEN);
    expect(text).not.toContain("NoteAgent");
    expect(text).not.toContain("on/the desk");
  });

  it("sends its page under a policy that allows only its own script, and no framing or caching", async () => {
    const { headers } = await fetch(served.url);
    expect(headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; script-src 'nonce-[^']+'; style-src 'nonce-[^']+'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'$/,
    );
    for (const path of ["/", "/api/agents", "/nothing"])
      expect((await ask(path)).headers).toSatisfy(
        (sent: Headers) =>
          sent.get("cache-control") === "no-store" &&
          sent.get("x-content-type-options") === "nosniff" &&
          sent.get("x-frame-options") === "DENY" &&
          sent.get("referrer-policy") === "no-referrer",
      );
  });

  it("answers only loopback's Host on a loopback address, whatever the token", async () => {
    for (const foreign of ["evil.example", "evil.example:80", "localhost.evil.example", "10.0.0.1"])
      for (const path of ["/", "/api/agents"])
        expect([foreign, path, await statusOf("GET", path, { host: foreign })]).toEqual([
          foreign,
          path,
          421,
        ]);
    const { port } = new URL(served.url);
    for (const named of [`localhost:${port}`, `LOCALHOST.:${port}`, `[::1]:${port}`, "127.0.0.2"])
      expect([named, await statusOf("GET", "/api/hosts", { host: named })]).toEqual([named, 200]);
  });

  it("lists agents by class and name prefix, and the hosts with their shards", async () => {
    const names = async (query: string) =>
      (await get<{ name: string }[]>(`/api/agents?${query}`)).map(({ name }) => name).toSorted();
    expect(await names("")).toEqual(["in a drawer", "on/the desk"]);
    expect(await names("class=NoteAgent&prefix=on")).toEqual(["on/the desk"]);
    expect(await names("class=other")).toEqual([]);
    expect(await names("limit=1")).toHaveLength(1);
    expect(await get("/api/hosts")).toEqual([{ host: expect.any(String), shards: 4 }]);
  });

  it("shows an agent's turns, and its state, rows and schedules at each", async () => {
    const turns = await get<Turn[]>(`${DESK}/history`);
    const second = turns.find((turn) => turn.state?.text === "second")!;
    expect(await get(`${DESK}/state?at=${second.seq}`)).toMatchObject({
      class: "NoteAgent",
      seq: second.seq,
      state: { text: "second", by: { name: "ann" } },
    });
    expect(await get(`${DESK}/state`)).toMatchObject({ state: { text: "third" } });
    const query = encodeURIComponent("SELECT text FROM notes ORDER BY rowid");
    expect(await get(`${DESK}/sql?at=${second.seq}&query=${query}`)).toEqual([
      { text: "first" },
      { text: "second" },
    ]);
    expect(await get(`${DESK}/schedules?at=${second.seq}`)).toEqual([]);
    expect(await get(`${DESK}/schedules`)).toMatchObject([{ callback: "remind" }]);
  });

  it("shows turns from a sequence on as in the whole list, even if states are stored as diffs", async () => {
    const long = "x".repeat(5_000);
    for (const end of ["a", "b", "c"]) await call("a long text", "write", long + end, "ann");
    const of = "/api/agents/NoteAgent/a%20long%20text/history";
    const all = await get<Turn[]>(of);
    for (const { seq } of all)
      expect(await get(`${of}?from=${seq}`)).toEqual(all.filter((turn) => turn.seq >= seq));
    const { seq } = all.at(-1)!;
    expect(await get(`${of}?from=${seq + 1}`)).toEqual([]);
  });

  it("reports what is wrong with a request", async () => {
    const wrong = async (path: string) => {
      const { status, text } = await ask(path);
      return [status, (JSON.parse(text) as { error: string }).error] as const;
    };
    expect(await wrong("/api/agents/NoteAgent/nobody/state")).toEqual([
      404,
      expect.stringContaining("nobody"),
    ]);
    expect(await wrong(`${DESK}/state?at=yesterday`)).toEqual([
      400,
      expect.stringContaining("at=yesterday: Use a journal sequence"),
    ]);
    expect(await wrong(`${DESK}/sql?query=DELETE+FROM+notes`)).toEqual([
      400,
      expect.stringContaining("a query may only read"),
    ]);
    for (const limit of ["none", "0", "5001", "1e2", "0x10", "1.0"]) {
      const said = `limit=${limit}: use a whole number from 1 to 5000`;
      expect(await wrong(`${DESK}/history?limit=${limit}`)).toEqual([400, said]);
    }
    expect((await ask(`${DESK}/nothing`)).status).toBe(404);
    expect((await ask("/api/dead/1/drop")).status).toBe(405);
    expect((await ask("/%E0%A4%A", {})).status).toBe(400);
    for (const id of ["0", "1e0", "9007199254740993"])
      expect((await ask(`/api/dead/${id}`)).status, id).toBe(404);
    for (const path of ["//", "//other.example/api/overview"])
      expect(await statusOf("GET", path, {}), path).toBe(404);
  });

  it("redrives and drops dead letters, but not for another site's page", async () => {
    const letters = await pollUntil("the dead letter", async () => {
      const found = await get<{ id: number; name: string }[]>("/api/dead");
      return found.length === 1 ? { done: true, value: found } : { done: false, saw: found };
    });
    expect(letters[0]).toMatchObject({ name: "in a drawer" });
    const drop = `/api/dead/${letters[0]!.id}/drop`;
    const foreign = await statusOf("POST", drop, { "sec-fetch-site": "cross-site" });
    expect(foreign).toBe(403);
    expect(await get("/api/dead")).toHaveLength(1);
    await call("in a drawer", "write", "now", "the boss");
    const redrive = await ask(`/api/dead/${letters[0]!.id}/redrive`, { method: "POST" });
    expect(redrive.status).toBe(200);
    expect(await get("/api/dead")).toEqual([]);
    expect((await ask(drop, { method: "POST" })).status).toBe(404);
  });
});

const statusOf = (method: string, path: string, headers: Readonly<Record<string, string>>) =>
  statusWith(served.url + path, method, { ...bearer, ...headers });

describe("agents console", () => {
  it("generates a token, prints the URL that opens the console, and stops on a signal", async () => {
    const own = await serve([], {});
    const opened = new URL(/http:\S+/.exec(own.said)![0]);
    const token = new URLSearchParams(opened.hash.slice(1)).get("token");
    const authorization = `Bearer ${token}`;
    const agents = await fetch(new URL("/api/agents", opened), { headers: { authorization } });
    expect([opened.search, agents.status]).toEqual(["", 200]);
    own.process.kill("SIGTERM");
    expect(await own.ended).toBe(0);
  });

  it("refuses a guessable token, and one on the command line, without echoing it", async () => {
    await expect(serve([], { AGENTS_CONSOLE_TOKEN: "short" })).rejects.toThrow("too short");
    const shown = serve(["--token", "seen-by-everybody"], {});
    await expect(shown).rejects.toThrow(/--token-file <file>.*AGENTS_CONSOLE_TOKEN/);
    await expect(shown).rejects.not.toThrow("seen-by-everybody");
  });

  it("reads the token from a file, which must exist, and not from two places", async () => {
    const file = installation.pathOf("token");
    writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
    const own = await serve(["--token-file", file], {});
    expect((await fetch(`${own.url}/api/hosts`, { headers: bearer })).status).toBe(200);
    own.process.kill("SIGTERM");
    await own.ended;
    await expect(serve(["--token-file", `${file}s`], {})).rejects.toThrow("can't be read");
    const both = serve(["--token-file", file], { AGENTS_CONSOLE_TOKEN: TOKEN });
    await expect(both).rejects.toThrow("Use one of them");
  });

  it("accepts the configured public host, and no other", async () => {
    const own = await serve(["--public-host", "ops.example.com"], { AGENTS_CONSOLE_TOKEN: TOKEN });
    const status = (host: string) => statusWith(own.url, "GET", { host });
    expect(await status("ops.example.com")).toBe(200);
    expect(await status("ops.example.com.evil.example")).toBe(421);
    own.process.kill("SIGTERM");
    await own.ended;
  });

  it("blocks an address for a minute after ten wrong tokens, even with the right one", async () => {
    const own = await serve([], { AGENTS_CONSOLE_TOKEN: TOKEN });
    const status = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await fetch(`${own.url}/api/hosts`, { headers })).status;
    };
    expect(await status(TOKEN)).toBe(200);
    for (let n = 0; n < 10; n++) expect(await status(`wrong ${n}`)).toBe(401);
    expect(await status("wrong")).toBe(429);
    expect(await status(TOKEN)).toBe(429);
    expect((await fetch(`${own.url}/api/hosts`)).status).toBe(401);
    own.process.kill("SIGTERM");
    await own.ended;
  });
});

describe("the console's page", () => {
  let browser: Browser;
  beforeAll(async () => void (browser = await launchChromium()));
  afterAll(() => browser?.close());

  const open = (path?: string, more?: PageOptions) =>
    openPage(browser, { url: served.url, token: TOKEN, path }, more);
  const desk = `agents/NoteAgent/${encodeURIComponent("on/the desk")}`;
  const secondTurn = async () =>
    (await get<Turn[]>(`${DESK}/history`)).find((turn) => turn.state?.text === "second")!;

  it("goes back to any turn: what it changed, state and rows then; every view has a link", async () => {
    const { page, broken } = await open();
    expect(page.url()).toBe(`${served.url}/`);
    await page.getByRole("link", { name: "Agents", exact: true }).click();
    await page.getByRole("link", { name: "NoteAgent/on/the desk" }).click();
    const { seq } = await secondTurn();
    await page.getByRole("link", { name: String(seq), exact: true }).click();
    expect(page.url()).toBe(`${served.url}/#/${desk}/turns/${seq}`);
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
    await page.goto(`${served.url}/#/${desk}/why?path=state.by.name`);
    const writes = page.getByRole("region", { name: /Turns that wrote/ });
    await writes.getByRole("cell", { name: '"bob"' }).first().waitFor();
    expect(await writes.getByRole("row").count()).toBe(3);
    await page.goto(`${served.url}/#/${desk}/schedules`);
    await page.getByRole("cell", { name: "remind" }).waitFor();
    expect(broken).toEqual([]);
    await page.close();
  });

  it("shows new turns and agents by itself, and never discards what somebody types", async () => {
    const { page, broken } = await open(`${desk}/tables`);
    const query = page.getByLabel("Query", { exact: true });
    await query.fill("SELECT half of");
    const list = await browser.newPage();
    await list.goto(`${served.url}/#token=${encodeURIComponent(TOKEN)}`);
    await list.getByRole("link", { name: "Agents", exact: true }).click();
    await list.getByLabel("Name contains").fill("NEW");
    const timeline = await browser.newPage();
    await timeline.goto(`${served.url}/#token=${encodeURIComponent(TOKEN)}`);
    await timeline.goto(`${served.url}/#/${desk}`);
    await timeline.getByText("live", { exact: true }).waitFor();
    const turns = timeline.getByRole("region", { name: "Turns" }).getByRole("row");
    await turns.nth(3).waitFor();
    const before = await turns.count();
    await call("on/the desk", "write", "<b>fourth</b>", "bob");
    await call("a new one", "write", "hello", "eve");
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
    await page.goto(`${served.url}/#/query?sql=${encodeURIComponent("DELETE FROM NoteAgent")}`);
    await page.getByRole("alert").filter({ hasText: "The statement writes" }).waitFor();
    await page.close();
    expect(await ask("/api/query?sql=SELECT+1+FROM+NoteAgents")).toMatchObject({ status: 404 });
  });

  it("pages lists of any length, and shows dead letters in their own view, singly or in bulk", async () => {
    const seqs: number[] = [];
    for (let n = 0; n < 230; n++)
      seqs.push(await storeEvent(installation.ports.journal, `bulk ${String(n).padStart(3, "0")}`, { turns: 0, after: 0 })); // prettier-ignore
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
    await storeEvent(installation.ports.journal, "bulk", { turns: 0, after: 0 });
    await shows(201);
    await page.getByRole("button", { name: "More" }).click();
    await shows(231);
    expect(await page.getByRole("button", { name: "More" }).count()).toBe(0);
    // In pages that nobody has asked for again: an agent that was there, and a new one.
    await storeEvent(installation.ports.journal, "bulk 222", { turns: 1, after: seqs[222]! });
    await storeEvent(installation.ports.journal, "bulk 150 and a half", { turns: 0, after: 0 });
    await shows(232);
    await rows.filter({ hasText: "BulkAgent/bulk 222" }).getByRole("cell", { name: "2", exact: true }).waitFor(); // prettier-ignore
    await call("in a drawer", "write", "again", "nobody");
    for (const _ of [1, 2]) await call("in a drawer", "enqueue");
    await page.getByRole("link", { name: "Dead letters" }).click();
    await page.getByRole("button", { name: "Select all 2" }).click();
    await call("in a drawer", "write", "now", "the boss");
    await page.getByRole("button", { name: "Redrive" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Redrive" }).click();
    await page.getByText("No dead letters.").waitFor();
    expect(await get("/api/dead")).toEqual([]);
    expect(broken).toEqual([]);
    await page.close();
  });

  it("runs dead letters on forks first, and then redrives those that succeeded there", async () => {
    await call("in a drawer", "write", "again", "nobody");
    await call("in a drawer", "enqueue");
    await call("on a shelf", "enqueue");
    const { page, broken } = await open("dead");
    await page.getByRole("button", { name: "Select all 2" }).click();
    await call("in a drawer", "write", "now", "the boss");
    await page.getByRole("button", { name: /^Run on a fork/ }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Run on a fork/ })
      .click();
    const section = page.getByRole("region", { name: "On a fork first" });
    await section.getByText("1 of 2 inputs failed.").waitFor({ timeout: 60_000 });
    expect(await section.getByRole("article").allInnerTexts()).toEqual([
      expect.stringMatching(/^done \d+ on a fork of NoteAgent\/in a drawer at turn \d+$/m),
      expect.stringMatching(/^fails \d+ on a fork of NoteAgent\/on a shelf .*: Error: nobody may be reminded$/m),
    ]); // prettier-ignore
    expect(await get("/api/dead")).toHaveLength(2);
    await section.getByRole("button", { name: "Redrive the 1 that did not fail" }).click();
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^Redrive the 1/ })
      .click();
    await section.getByText("1 input stored in the inbox again.").waitFor();
    const left = await get<{ id: number; name: string }[]>("/api/dead");
    expect(left.map(({ name }) => name)).toEqual(["on a shelf"]);
    const views = ["dead", `dead/${left[0]!.id}`];
    expect(await faultsOf(browser, { url: served.url, token: TOKEN }, views)).toEqual([]);
    await ask(`/api/dead/${left[0]!.id}/drop`, { method: "POST" });
    const wrong = await ask("/api/dead/1,2/on-fork?module=other.ts", { method: "POST" });
    expect([wrong.status, wrong.text]).toEqual([400, expect.stringContaining("started without it")]); // prettier-ignore
    expect(broken).toEqual([]);
    await page.close();
  });

  it("renders a few screens of a long timeline at once: older turns page by page, and back to the newest", async () => {
    let last = 0;
    for (let n = 0; n < 12; n++) last = await storeEvent(installation.ports.journal, "long", { turns: 99, after: last }); // prettier-ignore
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
      after = await storeEvent(installation.ports.journal, "thick", { turns, after });
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
    const place = { url: served.url, token: TOKEN };
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

  it("sends its token to no other port of its host, and keeps it for this tab", async () => {
    const heard: string[] = [];
    const other = createServer((asked, response) => {
      heard.push(JSON.stringify([asked.url, asked.headers]));
      response.end("<p>another service</p>");
    });
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as AddressInfo;
    const context = await browser.newContext();
    const page = await context.newPage();
    await page.goto(`${served.url}/#token=${encodeURIComponent(TOKEN)}`);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await context.cookies()).toEqual([]);
    await page.goto(`http://127.0.0.1:${port}/`);
    await page.goto(`http://localhost:${port}/`);
    expect(heard.length).toBeGreaterThanOrEqual(2);
    expect(heard.join()).not.toContain("token");
    expect(await page.evaluate("JSON.stringify(sessionStorage)")).toBe("{}");
    await page.goto(served.url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    const second = await context.newPage();
    await second.goto(served.url);
    await second.getByLabel("The console's token").waitFor();
    expect(await second.getByRole("navigation").count()).toBe(0);
    await context.close();
    await new Promise((resolve) => other.close(resolve));
  });

  it("asks for a missing or wrong token, and opens with the right one", async () => {
    const page = await browser.newPage();
    await page.goto(`${served.url}/#token=a%20wrong%20token`);
    const field = page.getByLabel("The console's token");
    await field.fill(TOKEN);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await field.count()).toBe(0);
    expect(page.url()).toBe(`${served.url}/`);
    await page.close();
  });
});
