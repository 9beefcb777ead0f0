/** Routes' filters, and a delivery for several agents: each gets it exactly once, or never. */
import { beforeAll, describe, expect, test } from "vitest";
import { Agent } from "agents";
import { body, github, InvalidWebhook, slug, unsigned, webhook } from "agents/webhooks";
import { pollUntil } from "../kit/poll.ts";
import { journalOf, postGithub, SECRET, useSystems, type System } from "./kit.ts";

class Counted extends Agent<unknown, string[]> {
  static override options = { http: "open" };
  override initialState: string[] = [];
  override async onRequest(request: Request) {
    const { action } = (await request.json()) as { action: string };
    this.setState([...this.state, action]);
    return new Response("from the agent");
  }
}
class RepoAgent extends Counted {}
class OrgAgent extends Counted {}

const verify = github({ secret: "SECRET" });
const repo = { agent: RepoAgent, entity: body("repository.full_name", slug) };
const org = { agent: OrgAgent, entity: body("organization.login") };
const module = {
  agents: { RepoAgent, OrgAgent },
  env: { SECRET },
  webhooks: [
    webhook("/some", {
      ...repo,
      verify,
      when: ({ action }: { action: string }) => action === "opened",
    }),
    webhook("/match", { ...repo, verify, when: { action: ["a", "b"], "pull.draft": false } }),
    webhook("/wrong", { ...repo, verify, when: () => "yes" as never }),
    webhook("/both", { ...repo, verify, also: [{ ...org, when: { action: "shared" } }] }),
  ],
};

const systems = useSystems();
let system: System & { readonly options: Parameters<typeof journalOf>[0] };
beforeAll(async () => {
  system = await systems.start(module, { requestLines: "all" });
});

const event = (name: string, action: string, more = {}) => ({
  action,
  repository: { full_name: name },
  organization: { login: name },
  ...more,
});
const turnsOf = async (className: string, name: string) =>
  (await journalOf(system.options, className, name)).flatMap(({ turns }) => turns);
const post = (path: string, payload: object, id?: string) =>
  postGithub(`${system.url}${path}`, payload, id === undefined ? {} : { id });

describe("a route's filter", () => {
  test("admits an event, or answers 200 and stores nothing", async () => {
    expect(await post("/some", event("some", "opened"))).toMatchObject({ text: "from the agent" });
    expect(await post("/some", event("none", "closed"))).toMatchObject({ status: 200, text: "OK" });
    expect(await turnsOf("RepoAgent", "some")).toHaveLength(1);
    expect(await turnsOf("RepoAgent", "none")).toEqual([]);
    expect(system.gateway.log.lines).toContainEqual(
      expect.objectContaining({
        message: "POST /some",
        fields: expect.objectContaining({ why: "no target accepts it" }),
      }),
    );
  });

  test("selects values by path, with a list for one of several", async () => {
    const draft = (name: string, action: string, is: unknown) =>
      post("/match", event(name, action, { pull: { draft: is } }));
    await draft("m1", "a", false);
    await draft("m2", "b", false);
    await draft("m3", "c", false);
    await draft("m4", "a", true);
    await draft("m5", "a", "false");
    const counts = ["m1", "m2", "m3", "m4", "m5"].map(async (name) =>
      (await turnsOf("RepoAgent", name)).length,
    ); // prettier-ignore
    expect(await Promise.all(counts)).toEqual([1, 1, 0, 0, 0]);
  });

  test("that fails causes a 500, so that the provider retries, and is logged", async () => {
    expect(await post("/wrong", event("w", "a"))).toMatchObject({ status: 500 });
    expect(JSON.stringify(system.gateway.log.lines)).toContain("return true or false");
  });

  test("is not called for a wrong signature or an invalid body", async () => {
    const forged = await postGithub(`${system.url}/wrong`, event("f", "a"), { secret: "other" });
    expect(forged.status).toBe(401);
    expect(await postGithub(`${system.url}/wrong`, "{")).toMatchObject({ text: "Invalid JSON" });
  });

  test("that is invalid is an error of the module", () => {
    const bad = (when: unknown) => () => webhook("/x", { ...repo, verify, when: when as never });
    expect(bad("opened")).toThrow(InvalidWebhook);
    expect(bad({ action: {} })).toThrow(/when\["action"\]/);
    expect(bad({ "a..b": 1 })).toThrow(/when\["a\.\.b"\]/);
  });
});

describe("a delivery to several agents", () => {
  test("takes effect once in each, also when it is repeated", async () => {
    const shared = event("both", "shared");
    expect(await post("/both", shared, "g-both")).toMatchObject({ status: 200, text: "OK" });
    expect(await post("/both", shared, "g-both")).toMatchObject({ status: 200 });
    const stateOf = async (className: string) =>
      pollUntil(`${className} has it`, async () => {
        const turns = await turnsOf(className, "both");
        return turns.length > 0 && turns;
      });
    const [repoTurns, orgTurns] = [await stateOf("RepoAgent"), await stateOf("OrgAgent")];
    await post("/both", shared, "g-both");
    expect([repoTurns!.length, orgTurns!.length]).toEqual([1, 1]);
    expect((await turnsOf("RepoAgent", "both")).length).toBe(1);
    expect(repoTurns![0]!.cause.body).toBe(JSON.stringify(shared));
    expect(repoTurns![0]!.cause.headers?.["x-github-delivery"]).toBe("g-both");
    const ids = [repoTurns!, orgTurns!].map(([turn]) => turn!.cause.delivery!);
    expect(ids.map((id) => id.replace(/^.*\./, "")).toSorted()).toEqual(["0", "1"]);
  });

  test("is answered by the agent if only one receives it", async () => {
    const answer = await post("/both", event("alone", "other"));
    expect(answer).toMatchObject({ status: 200, text: "from the agent" });
    expect(await turnsOf("OrgAgent", "alone")).toEqual([]);
  });

  test("selects its agents from signed data, like a single one", () => {
    const also = [{ agent: OrgAgent, entity: body("organization.login") }];
    expect(() => webhook("/x", { ...repo, verify: unsigned(), also })).toThrow(InvalidWebhook);
  });
});
