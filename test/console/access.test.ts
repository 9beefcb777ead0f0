/** Who reaches the console: its token, and the hosts that it answers, in a real Chromium. */
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { launchChromium } from "../kit/chromium.ts";
import { bearer, NoteConsole, TOKEN } from "./NoteConsole.ts";
import { statusWith } from "./serveConsole.ts";

let notes: NoteConsole;
beforeAll(async () => {
  notes = await NoteConsole.start();
  await notes.write();
});
afterAll(() => notes?.stop());

it("serves only an empty page without the token, and accepts it by neither URL nor cookie", async () => {
  for (const [path, method] of [
    ["/api/agents", "GET"],
    ["/api/agents?token=" + encodeURIComponent(TOKEN), "GET"],
    ["/api/dead/1/drop", "POST"],
    ["/nothing", "GET"],
  ] as const) {
    const cookie = `agents_console=${encodeURIComponent(TOKEN)}`;
    const bare = await fetch(notes.url + path, { method, headers: { cookie } });
    expect([path, bare.status]).toEqual([path, 401]);
    expect(await bare.text()).not.toContain("Note");
  }
  const page = await fetch(`${notes.url}/?token=${encodeURIComponent(TOKEN)}`);
  expect([page.status, page.headers.get("set-cookie")]).toEqual([200, null]);
  const text = await page.text();
  expect(text).not.toContain(TOKEN);
  expect(text).not.toContain("NoteAgent");
  expect(text).not.toContain("on/the desk");
});

it("sends its page under a policy that allows only its own script, and no framing or caching", async () => {
  const { headers } = await fetch(notes.url);
  expect(headers.get("content-security-policy")).toMatch(
    /^default-src 'none'; script-src 'nonce-[^']+'; style-src 'nonce-[^']+'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'$/,
  );
  for (const path of ["/", "/api/agents", "/nothing"])
    expect((await notes.ask(path)).headers).toSatisfy(
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
      expect([foreign, path, await notes.statusOf("GET", path, { host: foreign })]).toEqual([
        foreign,
        path,
        421,
      ]);
  const { port } = new URL(notes.url);
  for (const named of [`localhost:${port}`, `LOCALHOST.:${port}`, `[::1]:${port}`, "127.0.0.2"])
    expect([named, await notes.statusOf("GET", "/api/hosts", { host: named })]).toEqual([
      named,
      200,
    ]);
});

describe("agents console", () => {
  it("generates a token, prints the URL that opens the console, and stops on a signal", async () => {
    const own = await notes.serve([], {});
    const opened = new URL(/http:\S+/.exec(own.said)![0]);
    const token = new URLSearchParams(opened.hash.slice(1)).get("token");
    const authorization = `Bearer ${token}`;
    const agents = await fetch(new URL("/api/agents", opened), { headers: { authorization } });
    expect([opened.search, agents.status]).toEqual(["", 200]);
    own.process.kill("SIGTERM");
    expect(await own.ended).toBe(0);
  });

  it("refuses a guessable token, and one on the command line, without echoing it", async () => {
    await expect(notes.serve([], { AGENTS_CONSOLE_TOKEN: "short" })).rejects.toThrow("too short");
    const shown = notes.serve(["--token", "seen-by-everybody"], {});
    await expect(shown).rejects.toThrow(/--token-file <file>.*AGENTS_CONSOLE_TOKEN/);
    await expect(shown).rejects.not.toThrow("seen-by-everybody");
  });

  it("reads the token from a file, which must exist, and not from two places", async () => {
    const file = notes.installation.pathOf("token");
    writeFileSync(file, `${TOKEN}\n`, { mode: 0o600 });
    const own = await notes.serve(["--token-file", file], {});
    expect((await fetch(`${own.url}/api/hosts`, { headers: bearer })).status).toBe(200);
    own.process.kill("SIGTERM");
    await own.ended;
    await expect(notes.serve(["--token-file", `${file}s`], {})).rejects.toThrow("can't be read");
    const both = notes.serve(["--token-file", file], { AGENTS_CONSOLE_TOKEN: TOKEN });
    await expect(both).rejects.toThrow("Use one of them");
  });

  it("accepts the configured public host, and no other", async () => {
    const own = await notes.serve(["--public-host", "ops.example.com"], {
      AGENTS_CONSOLE_TOKEN: TOKEN,
    });
    const status = (host: string) => statusWith(own.url, "GET", { host });
    expect(await status("ops.example.com")).toBe(200);
    expect(await status("ops.example.com.evil.example")).toBe(421);
    own.process.kill("SIGTERM");
    await own.ended;
  });

  it("blocks an address for a minute after ten wrong tokens, even with the right one", async () => {
    const own = await notes.serve([], { AGENTS_CONSOLE_TOKEN: TOKEN });
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
    await page.goto(`${notes.url}/#token=${encodeURIComponent(TOKEN)}`);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await context.cookies()).toEqual([]);
    await page.goto(`http://127.0.0.1:${port}/`);
    await page.goto(`http://localhost:${port}/`);
    expect(heard.length).toBeGreaterThanOrEqual(2);
    expect(heard.join()).not.toContain("token");
    expect(await page.evaluate("JSON.stringify(sessionStorage)")).toBe("{}");
    await page.goto(notes.url);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    const second = await context.newPage();
    await second.goto(notes.url);
    await second.getByLabel("The console's token").waitFor();
    expect(await second.getByRole("navigation").count()).toBe(0);
    await context.close();
    await new Promise((resolve) => other.close(resolve));
  });

  it("asks for a missing or wrong token, and opens with the right one", async () => {
    const page = await browser.newPage();
    await page.goto(`${notes.url}/#token=a%20wrong%20token`);
    const field = page.getByLabel("The console's token");
    await field.fill(TOKEN);
    await page.getByRole("button", { name: "Open" }).click();
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    expect(await field.count()).toBe(0);
    expect(page.url()).toBe(`${notes.url}/`);
    await page.close();
  });
});
