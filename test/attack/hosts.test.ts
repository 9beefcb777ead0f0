/** DNS rebinding and foreign pages against a gateway on loopback, and against `agents dev`. */
import { spawn, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, sign, webhook } from "agents/webhooks";
import { startNats, type TestNats } from "../kit/natsServer.ts";
import { pollUntil } from "../kit/poll.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";
import { ask as askPath, type Answer } from "./ask.ts";
import { postGithub, SECRET, TestSocket, useSystems } from "../system/kit.ts";

class PlainAgent extends Agent {
  override onRequest(): Response {
    return new Response("here", { headers: { vary: "accept" } });
  }
}
class SignedAgent extends PlainAgent {}
const module = {
  agents: { PlainAgent, SignedAgent },
  env: { SECRET },
  webhooks: [
    webhook("/webhooks/github", {
      agent: SignedAgent,
      verify: github({ secret: "SECRET" }),
      entity: body("name"),
    }),
  ],
};
const systems = useSystems();

/** Asks an agent, unless said otherwise. */
const ask = (
  url: string,
  headers: Readonly<Record<string, string>>,
  request: { readonly method?: string; readonly path?: string; readonly body?: string } = {},
): Promise<Answer> => askPath(url, headers, { path: "/agents/plain-agent/a", ...request });

const UPGRADE = {
  connection: "Upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};
const FOREIGN_HOSTS = [
  "evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "127.0.0.1:80@evil.example",
  "10.0.0.1", "[::2]", "notlocalhost", "0.0.0.0", "localhost, evil.example",
]; // prettier-ignore
const OWN_HOSTS = ["localhost", "LOCALHOST:1", "app.localhost:8787", "127.0.0.1", "127.8.8.8:8787", "[::1]:8787", "localhost."]; // prettier-ignore

describe.each(["uws", "node"] as const)("a gateway on a loopback address, on %s", (http) => {
  test("answers requests and upgrades for loopback's names, and refuses others", async () => {
    const { url } = await systems.start(module, { http });
    for (const host of FOREIGN_HOSTS)
      for (const headers of [{ host }, { host, ...UPGRADE }]) {
        const { status, text } = await ask(url, headers);
        // A server may find that it is no Host at all.
        expect([host, [400, 421].includes(status)]).toEqual([host, true]);
        if (status === 421) expect(text).toMatch(/--public-url.*--allowed-hosts/);
      }
    for (const host of OWN_HOSTS) expect([host, (await ask(url, { host })).status]).toEqual([host, 200]); // prettier-ignore
  });

  test("answers its configured hosts, in the module's fetch too, and accepts verified webhooks under any host", async () => {
    const { url } = await systems.start(
      { ...module, fetch: () => new Response("own") },
      { http, access: { allowedHosts: ["agents.internal"] } },
    );
    expect((await ask(url, { host: "agents.internal:80" })).status).toBe(200);
    expect((await ask(url, { host: "evil.example" })).status).toBe(421);
    const host = "tunnel.example";
    const delivery = {
      method: "POST",
      path: "/webhooks/github",
      body: JSON.stringify({ name: "a" }),
    };
    expect((await ask(url, { host }, delivery)).status).toBe(401);
    expect((await ask(url, { host, ...sign.github(delivery.body, SECRET) }, delivery)).status).toBe(
      200,
    );
  });

  test("in dev, pages of other origins reach no class; requests that come from no page do", async () => {
    const { url } = await systems.start(module, { http, access: { dev: true } });
    const { host } = new URL(url);
    for (const origin of [
      "https://evil.example",
      "null",
      "http://localhost:5173",
      `http://${host}0`,
    ])
      for (const headers of [
        { host, origin },
        { host, origin, ...UPGRADE },
      ]) {
        const { status, text } = await ask(url, headers);
        expect([origin, status, text.includes("allowedOrigins")]).toEqual([origin, 403, true]);
      }
    expect((await ask(url, { host })).status).toBe(200);
    expect((await ask(url, { host, origin: `http://${host}` })).status).toBe(200);
    const socket = await TestSocket.open(`${url}/agents/plain-agent/a`, { origin: `http://${host}` }); // prettier-ignore
    expect(socket.refused).toBeUndefined();
    await socket.close();
  });

  test("requests that browsers send without an Origin count as their page's; links are followed", async () => {
    const { url } = await systems.start(
      { ...module, allowedOrigins: ["https://app.example.com"] },
      { http },
    );
    const { host } = new URL(url);
    const status = async (headers: Readonly<Record<string, string>>): Promise<number> =>
      (await ask(url, { host, ...headers })).status;
    for (const site of ["cross-site", "same-site"]) {
      const image = { "sec-fetch-site": site, "sec-fetch-mode": "no-cors" };
      expect(await status(image)).toBe(403);
      expect(await status({ ...image, referer: "https://evil.example/" })).toBe(403);
      expect(await status({ ...image, referer: "https://app.example.com/a" })).toBe(200);
      expect(await status({ ...image, referer: `http://${host}/` })).toBe(200);
      expect(await status({ ...image, "sec-fetch-mode": "navigate" })).toBe(200);
    }
    for (const site of ["same-origin", "none"])
      expect(await status({ "sec-fetch-site": site, "sec-fetch-mode": "no-cors" })).toBe(200);
    const every = await systems.start({ ...module, allowedOrigins: ["*"] }, { http });
    const image = { host, "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" };
    expect((await ask(every.url, image)).status).toBe(200);
    const unlisted = await systems.start(module, { http });
    expect((await ask(unlisted.url, image)).status).toBe(200);
  });

  test("an empty list of origins closes every class to pages of other origins", async () => {
    const { url } = await systems.start({ ...module, allowedOrigins: [] }, { http });
    const { host } = new URL(url);
    expect((await ask(url, { host, origin: "https://evil.example" })).status).toBe(403);
    expect((await ask(url, { host, origin: `http://${host}` })).status).toBe(200);
  });

  test("only listed origins get CORS and sockets, from the module's list and the command line's", async () => {
    const { url } = await systems.start(
      { ...module, allowedOrigins: ["https://app.example.com"] },
      { http, access: { allowedOrigins: ["http://localhost:5173"] } },
    );
    const { host } = new URL(url);
    for (const origin of ["https://app.example.com", "http://localhost:5173"]) {
      const { status, text } = await ask(url, { host, origin });
      expect(status).toBe(200);
      expect(text.toLowerCase()).toContain(`access-control-allow-origin: ${origin}`);
      expect(text.toLowerCase()).toMatch(/vary: accept, origin/);
      const preflight = await ask(
        url,
        { host, origin, "access-control-request-method": "PUT" },
        { method: "OPTIONS" },
      );
      expect([preflight.status, /access-control-allow-methods: [A-Z, ]*PUT/i.test(preflight.text)]).toEqual([200, true]); // prettier-ignore
      const socket = await TestSocket.open(`${url}/agents/signed-agent/a`, { origin });
      expect(socket.refused).toBeUndefined();
      await socket.close();
      // The page can read what is wrong, too.
      const invalid = await ask(
        url,
        { host, origin },
        { path: `/agents/plain-agent/${"a".repeat(2_000)}` },
      );
      expect(invalid.status).toBe(400);
      expect(invalid.text.toLowerCase()).toContain(`access-control-allow-origin: ${origin}`);
      const large = "x".repeat(26 * 1024 * 1024);
      for (const [expected, request] of [
        [413, { method: "POST", body: large }], // refused by the server
        [413, { method: "POST", body: "[".repeat(600_000) }], // by the gateway
        // Listed or not: a signed class takes no HTTP.
        [403, { path: "/agents/signed-agent/a" }],
      ] as const) {
        const refused = await ask(url, { host, origin }, request);
        expect(refused.status).toBe(expected);
        expect(refused.text.toLowerCase()).toContain(`access-control-allow-origin: ${origin}`);
        expect(refused.text).toContain("access-control-expose-headers: retry-after");
      }
    }
    const foreign = await ask(url, { host, origin: "https://evil.example" });
    expect([foreign.status, /access-control/i.test(foreign.text)]).toEqual([403, false]);
  });

  test("an origin that is listed itself may send cookies, and one that only * allows may not", async () => {
    const origin = "https://app.example.com";
    for (const allowedOrigins of [[origin, "*"], ["*"]]) {
      const { url } = await systems.start({ ...module, allowedOrigins }, { http });
      const { host } = new URL(url);
      // With cookies, browsers take `*` for a name, and want the ones that they asked for.
      const asked = { host, origin, "access-control-request-headers": "content-type,x-shop" };
      for (const { text } of [
        await ask(url, asked, { method: "OPTIONS" }),
        await ask(url, asked),
      ]) {
        expect(text).toMatch(/access-control-allow-headers: content-type,x-shop/i);
        expect(/access-control-allow-credentials: true/i.test(text)).toBe(
          allowedOrigins.includes(origin),
        );
      }
    }
  });
});

describe("agents dev with the example of npm start", () => {
  const MAIN = fileURLToPath(new URL("../../dist/services/cli/main.js", import.meta.url));
  const EXAMPLE = fileURLToPath(new URL("../../examples/github/server.ts", import.meta.url));
  let nats: TestNats;
  let folder: TempFolder;
  let dev: ChildProcess;
  let out = "";
  const found = (pattern: RegExp): string => pattern.exec(out)![1]!;

  beforeAll(async () => {
    nats = await startNats();
    folder = tempFolder("dev");
    dev = spawn(
      process.execPath,
      [MAIN, "dev", EXAMPLE, "--port", "0", "--data", folder.path, "--nats", nats.url],
      { env: { PATH: process.env["PATH"] ?? "", GITHUB_WEBHOOK_SECRET: SECRET }, stdio: "pipe" },
    );
    dev.stdout!.on("data", (chunk: Buffer) => (out += String(chunk)));
    dev.stderr!.on("data", (chunk: Buffer) => (out += String(chunk)));
    await pollUntil("it serves", () => out.includes("Ctrl-C") || { done: false, saw: out }, {
      timeoutMs: 60_000,
    });
  });
  afterAll(async () => {
    const ended = new Promise((resolve) => dev.once("close", resolve));
    dev.kill("SIGINT");
    await ended;
    await nats?.stop();
    folder?.remove();
  });

  test("accepts signed webhooks only, and its page works over a readonly socket", async () => {
    const url = found(/url +(http\S+)/);
    const agent = `${url}/agents/repo-agent/octocat~hello-world`;
    const payload = { action: "created", repository: { full_name: "octocat/hello-world" } };
    expect((await postGithub(`${url}/webhooks/github`, payload, { id: "one", event: "star" })).text).toBe("OK"); // prettier-ignore
    const headers = { "x-github-event": "push", "x-github-delivery": "2" };
    const forged = await fetch(agent, { method: "POST", headers, body: JSON.stringify(payload) });
    expect(forged.status).toBe(403);
    expect((await fetch(`${agent}/events`)).status).toBe(403);

    const page = await fetch(url);
    expect(await page.text()).toContain("listEvents");
    const socket = await TestSocket.open(agent, { origin: url });
    socket.send({ type: "rpc", id: "events", method: "listEvents", args: [50] });
    socket.send({ type: "cf_agent_state", state: { total: 99 } });
    await socket.until("both", () => socket.json.filter(isAnswer).length === 2);
    expect(socket.json.filter(isAnswer)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          success: true,
          result: [expect.objectContaining({ id: "one" })],
        }),
        { type: "cf_agent_state_error", error: "Connection is readonly" },
      ]),
    );
    expect(socket.states).toMatchObject([{ total: 1 }]);
    await socket.close();
  });

  test("refuses foreign hosts and origins, on its private port too", async () => {
    const url = found(/url +(http\S+)/);
    const { host } = new URL(url);
    expect((await ask(url, { host: "evil.example" }, { path: "/" })).status).toBe(421);
    expect((await ask(url, { host }, { path: "/" })).status).toBe(200);
    const path = "/agents/repo-agent/octocat~hello-world";
    const foreign = { host, origin: "https://evil.example", ...UPGRADE };
    expect((await ask(url, foreign, { path })).status).toBe(403);
    const admin = found(/metrics +(http\S+)\/metrics/);
    expect((await ask(admin, { host: "evil.example" }, { path: "/metrics" })).status).toBe(421);
    expect((await ask(admin, { host: "localhost" }, { path: "/healthz" })).status).toBe(200);
  });
});

const isAnswer = (frame: unknown): boolean =>
  ["rpc", "cf_agent_state_error"].includes(String((frame as { type?: unknown }).type));
