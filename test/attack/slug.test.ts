/** Entities that `slug` gives one name: the agent is the first one's; others are refused. */
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, escapedSlug, github, meta, slug, webhook } from "agents/webhooks";
import { adapters } from "../http/kit.ts";
import { pollUntil } from "../kit/poll.ts";
import { runAgents } from "../kit/runAgents.ts";
import { startSystem, startTestHost, type TestModule } from "../kit/system.ts";
import { tempFolder } from "../kit/tempFolder.ts";
import {
  deadLetterOf, journalOf, makeLatch, postGithub, read, SECRET, useSystems, type Latch, type System,
} from "../system/kit.ts"; // prettier-ignore

interface Env {
  readonly latches: Map<string, Latch>;
}

class Repo extends Agent<Env, { readonly seen: ReadonlyArray<string> }> {
  static override options = { http: "open", hibernateAfterSeconds: 0.2 };
  override initialState = { seen: [] };

  override async onRequest(request: Request): Promise<Response> {
    if (request.method === "GET") return Response.json(this.state);
    if (request.method === "DELETE") {
      await this.destroy();
      return new Response("gone");
    }
    const event = (await request.json()) as {
      repository?: { full_name: string };
      entry?: ReadonlyArray<{ id: string }>;
    };
    await this.env.latches?.get(this.name)?.opened;
    const of = event.repository?.full_name ?? event.entry?.[0]?.id ?? "?";
    this.setState({ seen: [...this.state.seen, of] });
    return new Response("OK");
  }
}

const verify = github({ secret: "SECRET" });
const field = "repository.full_name";
const agent = Repo;
const latches = new Map<string, Latch>();
const module: TestModule = {
  agents: { Repo },
  env: { SECRET, latches },
  webhooks: [
    webhook("/slug", { agent, verify, entity: body(field, slug) }),
    webhook("/stored", { agent, verify, entity: body(field, slug), answer: "stored" }),
    webhook("/merged", { agent, verify, entity: body(field, slug({ merge: true })) }),
    webhook("/escaped", { agent, verify, entity: body(field, escapedSlug) }),
    webhook("/batch", {
      agent,
      verify: meta({ secret: "SECRET", verifyToken: { value: "token" } }),
      entity: body("entry.0.id", slug),
    }),
  ],
};

const folder = tempFolder("entity");
const systems = useSystems();
afterAll(() => folder.remove());
const REFUSED = {
  status: 409,
  text: expect.stringMatching(
    /slug maps both to the same name.*escapedSlug.*merge: true/,
  ) as string,
};

describe.each(adapters.map(({ name }) => name))("on %s", (http) => {
  let system: System & { readonly options: Parameters<typeof journalOf>[0] };
  beforeAll(async () => {
    // With a folder: an agent that hibernates is read back from its local image.
    system = await systems.start(module, { http, folder: join(folder.path, http) });
  });

  const send = (route: string, entity: string, id?: string, url = system.url) =>
    postGithub(url + route, { repository: { full_name: entity } }, id === undefined ? {} : { id });
  const seen = async (name: string, url = system.url) =>
    ((await (await fetch(`${url}/agents/repo/${name}`)).json()) as { seen: string[] }).seen;
  const conflicts = async () =>
    Number(
      /^agents_entity_conflicts_total\S* (\d+)/m.exec(await system.host.metrics.render())?.[1] ?? 0,
    );

  test("an agent belongs to its first entity, whatever the case of its letters", async () => {
    const before = await conflicts();
    expect(await send("/slug", "ac-me/site")).toMatchObject({ status: 200 });
    expect(await send("/slug", "ac/me-site")).toMatchObject(REFUSED);
    expect(await send("/slug", "ac-me-site")).toMatchObject(REFUSED);
    expect(await send("/slug", "AC-Me/Site")).toMatchObject({ status: 200 });
    expect(await seen("ac-me-site")).toEqual(["ac-me/site", "AC-Me/Site"]);
    expect(await conflicts()).toBe(before + 2);
    // The caller learns neither name, the operator both.
    expect((await send("/slug", "ac/me-site")).text).not.toContain("ac-me/site");
    expect(system.host.log.lines).toContainEqual(
      expect.objectContaining({
        message: "a webhook was refused",
        fields: expect.objectContaining({
          reason: expect.stringMatching(/is for "ac\/me-site".*belongs to "ac-me\/site"/) as string,
        }) as object,
      }),
    );
  });

  test("a refused delivery is neither stored nor run, refused again when repeated, and never journaled", async () => {
    await send("/slug", "x-y/z");
    for (let n = 0; n < 3; n++) expect(await send("/slug", "x/y-z", "same")).toMatchObject(REFUSED);
    const events = await journalOf(system.options, "Repo", "x-y-z");
    expect(JSON.stringify(events)).not.toContain("x/y-z");
    expect(await deadLetterOf(system.options, "Repo", "x-y-z")).toBeUndefined();
  });

  test("one of two entities that arrive first at the same time is refused", async () => {
    const latch = makeLatch();
    latches.set("at-on-ce", latch);
    const answers = [send("/slug", "at/on-ce"), send("/slug", "at-on/ce")];
    const first = await Promise.race(answers);
    expect(first).toMatchObject(REFUSED);
    latch.open();
    expect((await Promise.all(answers)).map(({ status }) => status).toSorted()).toEqual([200, 409]);
    expect(await seen("at-on-ce")).toHaveLength(1);
  });

  test("a refused delivery that was answered 202 becomes a dead letter with the reason", async () => {
    expect(await send("/stored", "st-o/red")).toMatchObject({ status: 202 });
    await pollUntil("the first has run", async () => (await seen("st-o-red")).length === 1);
    expect(await send("/stored", "st/o-red")).toMatchObject({ status: 202 });
    const letter = await pollUntil("the other is dead", () =>
      deadLetterOf(system.options, "Repo", "st-o-red"),
    );
    expect(letter.reason).toMatch(
      /is for "st\/o-red".*belongs to "st-o\/red".*Remedy: .*escapedSlug/,
    );
    expect(await seen("st-o-red")).toEqual(["st-o/red"]);
    const { status } = await send("/stored", "st-o/red");
    expect(status).toBe(202);
    await pollUntil("the next has run", async () => (await seen("st-o-red")).length === 2);
  });

  test("a refused event of a batch becomes a dead letter too, and the batch's others run", async () => {
    const text = JSON.stringify({
      entry: [{ id: "ba-t/ch" }, { id: "ba/t-ch" }, { id: "BA-T/ch" }],
    });
    const mac = createHmac("sha256", SECRET).update(text).digest("hex");
    const headers = { "x-hub-signature-256": `sha256=${mac}` };
    const answer = await read(
      await fetch(`${system.url}/batch`, { method: "POST", body: text, headers }),
    );
    expect(answer).toMatchObject({ status: 200 });
    await pollUntil("two are done", async () => (await seen("ba-t-ch")).length === 2);
    expect(await seen("ba-t-ch")).toEqual(["ba-t/ch", "BA-T/ch"]);
    const letter = await pollUntil("one is dead", () =>
      deadLetterOf(system.options, "Repo", "ba-t-ch"),
    );
    expect(letter.reason).toContain("ba/t-ch");
  });

  test("entities that a route merges share an agent; escaped ones have their own", async () => {
    for (const entity of ["me-r/ged", "me/r-ged"])
      expect(await send("/merged", entity)).toMatchObject({ status: 200 });
    expect(await seen("me-r-ged")).toEqual(["me-r/ged", "me/r-ged"]);
    for (const entity of ["es-c/aped", "es/c-aped", "ES/C-aped"])
      expect(await send("/escaped", entity)).toMatchObject({ status: 200 });
    expect(await seen("es-c~aped")).toEqual(["es-c/aped"]);
    expect(await seen("es~c-aped")).toEqual(["es/c-aped", "ES/C-aped"]);
  });

  test("a hibernated agent remembers its entity, and a destroyed one is free", async () => {
    // Twice: the first time that it leaves memory, an agent without tables leaves no file.
    for (let n = 0; n < 2; n++) {
      expect(await send("/slug", "hi-ber/nates")).toMatchObject({ status: 200 });
      await pollUntil("nobody is in memory", () => system.host.host.agentsActive === 0);
    }
    expect(await send("/slug", "hi/ber-nates")).toMatchObject(REFUSED);
    expect(
      await (await fetch(`${system.url}/agents/repo/hi-ber-nates`, { method: "DELETE" })).text(),
    ).toBe("gone");
    expect(await send("/slug", "hi/ber-nates")).toMatchObject({ status: 200 });
    expect(await send("/slug", "hi-ber/nates")).toMatchObject(REFUSED);
  });
});

describe("an agent's entity is carried", () => {
  test("to another host, into a fork, a file and a backup", async () => {
    const { system, options } = await first();
    const send = (entity: string, url = system.url) =>
      postGithub(`${url}/slug`, { repository: { full_name: entity } });
    expect(await send("ac-me/site")).toMatchObject({ status: 200 });
    const cli = (namespace: string, ...args: string[]) =>
      runAgents(args, { NATS_URL: options.nats, AGENTS_NAMESPACE: namespace });

    // A fork has a name of its own, which is another entity's.
    expect(await cli(options.namespace!, "fork", "Repo", "ac-me-site", "co-py")).toMatchObject({
      code: 0,
    });
    expect(await send("co/py")).toMatchObject({ status: 200 });
    expect(await send("co-py")).toMatchObject(REFUSED);

    const saved = join(folder.path, "backup");
    expect(await cli(options.namespace!, "backup", saved)).toMatchObject({ code: 0 });
    await system.host.stop();
    const next = await startTestHost(options, "host-b");
    expect(await send("ac/me-site")).toMatchObject(REFUSED);
    expect(await send("ac-me/site")).toMatchObject({ status: 200 });
    await next.stop();
    await system.gateway.stop();

    const restored = systems.options(module);
    expect(await cli(restored.namespace!, "provision", "--shards", "4")).toMatchObject({ code: 0 });
    expect(await cli(restored.namespace!, "restore", saved)).toMatchObject({ code: 0 });
    const there = await startSystem(restored);
    expect(await send("ac/me-site", there.url)).toMatchObject(REFUSED);
    expect(await send("ac-me/site", there.url)).toMatchObject({ status: 200 });
    expect(await send("co-py", there.url)).toMatchObject(REFUSED);
    await there.stop();
  });

  async function first() {
    const options = systems.options(module);
    return { options, system: await startSystem(options) };
  }
});
