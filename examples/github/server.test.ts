/**
 * How a module of agents is tested: whole, in memory, in virtual time (`docs/guides/testing.md`).
 */
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";

const SECRET = "any text will do";

let test: TestAgents;
beforeEach(async () => {
  test = await testAgents({ module: server, env: { GITHUB_WEBHOOK_SECRET: SECRET } });
});
afterEach(() => test.close());

/** What GitHub does when somebody stars a repository. */
function star(repository: string, id: string): Promise<Response> {
  const body = JSON.stringify({
    action: "created",
    repository: { full_name: repository },
    sender: { login: "octocat" },
  });
  const headers = test.sign.github(body, SECRET, { id, event: "star" });
  return test.webhook("/webhooks/github", body, headers);
}

describe("the agent of a repository", () => {
  it("records what GitHub tells it, and counts it", async () => {
    const response = await star("Acme/Site", "1");
    expect([response.status, await response.text()]).toEqual([200, "OK"]);
    const repo = test.agent(server.RepoAgent, "acme~site");
    expect(await repo.state()).toMatchObject({ total: 1, counts: { star: 1 } });
    expect(await repo.sql("SELECT id, type, actor, timestamp FROM events")).toEqual([
      { id: "1", type: "star", actor: "octocat", timestamp: "2025-01-01T00:00:00.000Z" },
    ]);
  });

  it("counts a delivery once, however often GitHub sends it", async () => {
    for (let n = 0; n < 3; n++) expect((await star("Acme/Site", "1")).status).toBe(200);
    expect(await test.agent(server.RepoAgent, "acme~site").state()).toMatchObject({ total: 1 });
  });

  it("records a form, which GitHub sends unless its content type is set to JSON", async () => {
    const event = { action: "created", repository: { full_name: "Acme/Site" } };
    const body = new URLSearchParams({ payload: JSON.stringify(event) }).toString();
    const headers = {
      ...test.sign.github(body, SECRET, { id: "1", event: "star" }),
      "content-type": "application/x-www-form-urlencoded",
    };
    expect((await test.webhook("/webhooks/github", body, headers)).status).toBe(200);
    const repo = test.agent(server.RepoAgent, "acme~site");
    expect(await repo.state()).toMatchObject({ repository: "Acme/Site", counts: { star: 1 } });
  });

  it("reads what GitHub signed, whatever content type it is sent with", async () => {
    const text = "x&payload=%7B%22action%22%3A%22forged%22%7D&";
    const body = JSON.stringify({ action: text, repository: { full_name: "Acme/Site" } });
    const headers = {
      ...test.sign.github(body, SECRET, { id: "1", event: "star" }),
      "content-type": "application/x-www-form-urlencoded",
    };
    expect((await test.webhook("/webhooks/github", body, headers)).status).toBe(200);
    const repo = test.agent(server.RepoAgent, "acme~site");
    expect(await repo.sql("SELECT action FROM events")).toEqual([{ action: text }]);
  });

  it("counts a type with any name: GitHub does not sign the header", async () => {
    const body = JSON.stringify({ repository: { full_name: "Acme/Site" } });
    for (const event of ["toString", "toString", "__proto__"]) {
      const headers = test.sign.github(body, SECRET, { event });
      expect((await test.webhook("/webhooks/github", body, headers)).status).toBe(200);
    }
    const { counts } = (await test.agent(server.RepoAgent, "acme~site").state()) as {
      counts: Record<string, number>;
    };
    expect(Object.entries(counts)).toEqual([
      ["toString", 2],
      ["__proto__", 1],
    ]);
  });

  it("believes only GitHub", async () => {
    const body = JSON.stringify({ repository: { full_name: "Acme/Site" } });
    const forged = test.sign.github(body, "a guess");
    expect((await test.webhook("/webhooks/github", body, forged)).status).toBe(401);
    expect(await test.agent(server.RepoAgent, "acme~site").events()).toEqual([]);
  });

  it("shows pages each event as it comes, and lets them look only", async () => {
    const page = await test.connect(server.RepoAgent, "acme~site");
    await star("Acme/Site", "1");
    expect(page.state).toMatchObject({ repository: "Acme/Site", total: 1 });
    expect(await page.call("listEvents", [5])).toMatchObject([{ id: "1", type: "star" }]);
    await expect(page.setState({ ...page.state!, total: 99 })).rejects.toThrow("readonly");
  });

  it("takes nothing over HTTP that was not signed", async () => {
    const url = "/agents/repo-agent/acme-site";
    const headers = { "x-github-event": "star", "x-github-delivery": "1" };
    const forged = await test.fetch(url, { method: "POST", headers, body: "{}" });
    expect([forged.status, await forged.text()]).toEqual([403, expect.stringContaining("signed")]);
    expect((await test.fetch(`${url}/events`)).status).toBe(403);
    expect(await test.agent(server.RepoAgent, "acme-site").events()).toEqual([]);
  });

  it("loses nothing and counts nothing twice when its host dies", async () => {
    await star("Acme/Site", "1");
    const crashed = test.crashAt("before commit");
    const answer = star("Acme/Site", "2");
    await crashed;
    await test.revive();
    expect((await answer).status).toBe(200);
    expect(await test.agent(server.RepoAgent, "acme~site").state()).toMatchObject({ total: 2 });
  });
});
