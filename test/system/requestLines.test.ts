/** A log line for each request: who processed it, its result, and the id to find it by. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, slug, twilio, webhook } from "agents/webhooks";
import { TEXT } from "../../core/telemetry/Log.ts";
import { timeOfDelivery } from "../../schemas/DeliveryRecord.ts";
import { pollUntil } from "../kit/poll.ts";
import type { LogLine } from "../kit/system.ts";
import {
  journalOf,
  makeLatch,
  postGithub,
  SECRET,
  TestSocket,
  useSystems,
  type System,
} from "./kit.ts";

/** Opened by the test, when its caller has been answered. */
const slow = makeLatch();
/** Opened when the caller has left. */
const left = makeLatch();
let isWaiting = false;

class LinedAgent extends Agent<unknown, number> {
  static override options = {
    http: "open",
    retry: { maxAttempts: 3, baseDelayMs: 10, maxDelayMs: 20 },
  };
  override initialState = 0;

  override async onRequest(request: Request) {
    const { action } = (await request.json()) as { action?: string };
    if (action === "fail") throw new Error("broken as ordered");
    if (action === "slow") await slow.opened;
    if (action === "wait") {
      isWaiting = true;
      await left.opened;
    }
    if (action === "later") await this.schedule(0, "remind");
    this.setState(this.state + 1);
    return new Response("OK");
  }
  remind() {
    this.setState(this.state + 10);
  }
}

const route = (path: string, more: object) =>
  webhook(path, {
    agent: LinedAgent,
    verify: github({ secret: "SECRET" }),
    entity: body("repository.full_name", slug),
    ...more,
  });
const module = {
  agents: { LinedAgent },
  env: { SECRET },
  webhooks: [
    route("/hook", { bodyBytesMax: 4_000 }),
    route("/soon", { deadlineMs: 2_000 }),
    route("/signed-url", {
      verify: twilio({ secret: "SECRET", url: "https://me:hunter2@hooks.example.com" }),
    }),
  ],
};

const event = (name: string, action: string) => ({ action, repository: { full_name: name } });
const systems = useSystems();
let system: System & { readonly options: Parameters<typeof journalOf>[0] };
beforeAll(async () => {
  system = await systems.start(module, { requestLines: "all" });
});

interface Line extends LogLine {
  readonly fields: Readonly<Record<string | symbol, unknown>> & { readonly [TEXT]?: () => string };
}

/** Lines of both processes that satisfy `isWanted`, in the order of their text. */
const linesOf = (isWanted: (line: Line) => boolean): Line[] =>
  [...system.gateway.log.lines, ...system.host.log.lines].filter((line): line is Line =>
    isWanted(line as Line),
  );
const of = (name: string) =>
  linesOf(({ message, fields }) => /^POST .(hook|soon)/.test(message) && fields?.["name"] === name);
const textsOf = (name: string) => of(name).map(({ fields }) => fields[TEXT]!());

async function linesWhen(name: string, count: number): Promise<Line[]> {
  return pollUntil(`${count} lines of ${name}`, () => {
    const lines = of(name);
    return lines.length >= count ? { done: true, value: lines } : { done: false, saw: lines };
  });
}

describe("a webhook", () => {
  test("that is answered logs one line: route, agent, status, time, sequence and delivery", async () => {
    await postGithub(`${system.url}/hook`, event("answered", "x"));
    const [line, ...more] = await linesWhen("answered", 1);
    const { level, fields } = line!;
    const [turn] = (await journalOf(system.options, "LinedAgent", "answered"))[0]!.turns;
    expect([level, more]).toEqual(["info", []]);
    expect(fields).toMatchObject({ class: "LinedAgent", name: "answered", status: 200 });
    expect(fields["delivery"]).toBe(turn!.cause.delivery);
    expect(textsOf("answered")[0]).toMatch(
      /^POST \/hook → LinedAgent\/answered {2}200 {2}\d+(\.\d)? (ms|s) {2}seq \d+ {2}delivery [0-9a-z]+-[0-9a-z]+$/,
    );
  });

  test("that is repeated logs which event it duplicates", async () => {
    const id = { id: "the-same" };
    await postGithub(`${system.url}/hook`, event("twice", "x"), id);
    await postGithub(`${system.url}/hook`, event("twice", "x"), id);
    const [first, second] = await linesWhen("twice", 2);
    expect(second!.fields["duplicateOf"]).toBe(first!.fields["seq"]);
    expect(second!.fields["delivery"]).not.toBe(first!.fields["delivery"]);
  });

  test("that fails logs a line for each run, with the next run's time, and its stack once", async () => {
    await postGithub(`${system.url}/hook`, event("failing", "fail"));
    const lines = await linesWhen("failing", 3);
    const told = linesOf(
      ({ message, fields }) =>
        message === "an error in the agent's code" && fields["name"] === "failing",
    );
    const runs = lines.filter(({ fields }) => fields["why"] === "Error: broken as ordered");
    expect(runs.map(({ level, fields }) => [level, fields["status"], fields["attempt"]])).toEqual([
      ["warn", "failed", 1],
      ["warn", "failed", 2],
      ["error", 500, 3],
    ]);
    expect(runs[0]!.fields["nextInMs"]).toBeGreaterThanOrEqual(0);
    expect(told.map(({ fields }) => String(fields["error"]).includes("    at "))).toEqual([
      true,
      false,
      false,
    ]);
    const delivery = runs[0]!.fields["delivery"];
    expect([...lines, ...told].every(({ fields }) => fields["delivery"] === delivery)).toBe(true);
  });

  test("whose caller received 202 logs a second line when its agent is done", async () => {
    await postGithub(`${system.url}/soon`, event("slow", "slow"));
    await linesWhen("slow", 1);
    slow.open();
    const [stored, done, ...more] = await linesWhen("slow", 2);
    expect([stored!.fields["status"], done!.fields["status"]]).toEqual([202, 200]);
    expect(done!.fields["delivery"]).toBe(stored!.fields["delivery"]);
    expect(done!.fields["seq"]).toBeGreaterThan(0);
    expect(more).toEqual([]);
  });

  test("that is refused logs one line, with a reason without secrets or body", async () => {
    await fetch(`${system.url}/hook?token=hunter2`, {
      method: "POST",
      body: JSON.stringify({ ...event("stranger", "x"), password: "hunter2" }),
      headers: { "x-hub-signature-256": `sha256=${"0".repeat(64)}` },
    });
    const lines = linesOf(({ fields }) => fields?.["status"] === 401);
    expect(lines).toHaveLength(1);
    expect(lines[0]!.level).toBe("warn");
    expect(lines[0]!.fields["why"]).toMatch(/signature/);
    expect(lines[0]!.fields["from"]).toMatch(/127\.0\.0\.1/);
    expect(JSON.stringify([system.gateway.log.lines, lines[0]!.fields[TEXT]!()])).not.toMatch(
      /hunter2/,
    );
  });

  test("that is refused where the provider signs the URL logs which URL was checked, without its query", async () => {
    const refused = async (path: string) => {
      const headers = { "x-twilio-signature": "x", "content-type": "application/x-www-form-urlencoded" }; // prettier-ignore
      await fetch(`${system.url}${path}`, { method: "POST", body: "a=hunter2", headers });
      return linesOf(({ message }) => message === "POST /signed-url").at(-1)!;
    };
    const url = "https://REDACTED@hooks.example.com/signed-url";
    expect((await refused("/signed-url")).fields).toMatchObject({ status: 401, url });
    const line = await refused("/signed-url?to=hunter2&b=c");
    expect(line.fields["url"]).toBe(`${url}?…`);
    expect(line.fields[TEXT]!()).toContain(`  no signature matches  signed URL ${url}?…  `);
    expect(JSON.stringify(system.gateway.log.lines)).not.toMatch(/hunter2/);
  });

  test("with a body past the route's limit logs a line, although nothing read it", async () => {
    await fetch(`${system.url}/hook`, { method: "POST", body: "x".repeat(5_000) });
    const lines = linesOf(({ fields }) => fields?.["status"] === 413);
    expect(lines.map(({ message, fields }) => [message, fields["why"]])).toEqual([
      ["POST /hook", "its body has more than 4000 bytes"],
    ]);
  });
});

test("plain requests, sockets and schedules' runs log lines", async () => {
  await postGithub(`${system.url}/hook`, event("later", "later"));
  await fetch(`${system.url}/agents/lined-agent/plain?secret=1`, { method: "POST", body: "{}" });
  const socket = await TestSocket.open(`${system.url}/agents/lined-agent/plain`);
  socket.socket.close(4_000);
  const texts = () =>
    linesOf(({ message }) => /^(POST \/agents|socket|schedule)/.test(message)).map(({ fields }) =>
      fields[TEXT]!().replace(/ {2}\d+(\.\d)? (ms|s)|seq \d+/g, ""),
    );
  await pollUntil("four lines", () =>
    texts().length >= 4 ? { done: true, value: texts() } : { done: false, saw: texts() },
  );
  expect(texts().map((text) => text.trim())).toEqual(
    expect.arrayContaining([
      "POST /agents/lined-agent/plain  200",
      "socket /agents/lined-agent/plain  opened",
      "socket /agents/lined-agent/plain  closed 4000",
      "schedule remind → LinedAgent/later  done",
    ]),
  );
});

test("a request whose caller leaves logs that, and no failure", async () => {
  const url = `${system.url}/agents/lined-agent/waiting`;
  const caller = new AbortController();
  const asked = JSON.stringify({ action: "wait" });
  const request = fetch(url, { method: "POST", body: asked, signal: caller.signal });
  await pollUntil("it runs", () => isWaiting);
  caller.abort();
  await expect(request).rejects.toThrow();
  const lines = () => linesOf(({ message }) => message === "POST /agents/lined-agent/waiting");
  await pollUntil("its line", () => lines().length > 0);
  left.open();
  expect(lines().map(({ level, fields }) => [level, fields["status"]])).toEqual([
    ["info", "caller left"],
  ]);
});

test("by default, only refusals and failures are logged", async () => {
  const quiet = await systems.start(module);
  const { lines } = quiet.gateway.log;
  await postGithub(`${quiet.url}/hook`, event("fine", "x"));
  await fetch(`${quiet.url}/agents/lined-agent/plain`, { method: "POST", body: "{}" });
  await fetch(`${quiet.url}/nowhere`);
  await fetch(`${quiet.url}/hook`, { method: "POST", body: "{}" });
  expect(lines.filter(({ message }) => / \//.test(message))).toMatchObject([
    { message: "POST /hook", fields: { status: 401 } },
  ]);
});

test("a path with a class that the module does not have is logged once, with the one that is meant", async () => {
  const said = () =>
    linesOf(({ message }) => message === "a request names a class that the module does not have");
  for (const name of ["linedagent", "linedagent", "shop"]) {
    const response = await fetch(`${system.url}/agents/${name}/x`);
    expect([response.status, await response.text()]).toEqual([400, "Invalid request"]);
  }
  expect(said().map(({ fields }) => fields)).toEqual([
    { asked: "linedagent", meant: "lined-agent" },
    { asked: "shop", classes: "lined-agent" },
  ]);
  for (let n = 0; n < 30; n++) await fetch(`${system.url}/agents/scan-${n}-of-paths/x`);
  expect(said()).toHaveLength(20);
});

test("a delivery's id begins with the time of its request", async () => {
  const before = Date.now();
  await postGithub(`${system.url}/hook`, event("timed", "x"));
  const [line] = await linesWhen("timed", 1);
  const time = timeOfDelivery(String(line!.fields["delivery"]))!;
  expect(time).toBeGreaterThanOrEqual(before);
  expect(time).toBeLessThanOrEqual(Date.now());
});

test("an error of the client's socket is not an error of the agent", async () => {
  const socket = await TestSocket.open(`${system.url}/agents/lined-agent/too-large`);
  // Its peer closes while this is still being written: that error is expected.
  socket.socket.on("error", () => undefined);
  socket.socket.send("x".repeat(5 * 1024 * 1024));
  const [line] = await pollUntil("it is told", () => {
    const told = linesOf(({ fields }) => fields?.["name"] === "too-large");
    return told.length > 0 && { done: true, value: told };
  });
  expect([line!.level, line!.message, line!.fields["error"]]).toEqual([
    "warn",
    "a client's connection failed",
    "The connection was closed with 1009: Message too large",
  ]);
});
