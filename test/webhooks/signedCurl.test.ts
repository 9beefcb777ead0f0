import { expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";
import { body as bodyField, escapedSlug, github, webhook } from "agents/webhooks";
import { signedCurl } from "../../services/cli/serving/signedCurl.ts";

/** Reads what README's agent reads. */
class RepoAgent extends Agent {
  override async onRequest(request: Request) {
    const { head_commit } = (await request.json()) as {
      head_commit?: { id: string; message: string };
    };
    return new Response(head_commit ? `${head_commit.id} ${head_commit.message}` : "Not a push");
  }
}

test("the curl that dev prints is a signed push with a commit", async () => {
  const env = { GITHUB_WEBHOOK_SECRET: "s" };
  const route = webhook("/webhooks/github", {
    agent: RepoAgent,
    verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }),
    entity: bodyField("repository.full_name", escapedSlug),
  });
  const curl = signedCurl(route, { url: "http://here", env, nowSeconds: 1 })!;
  const pairs = [...curl.matchAll(/-H '([^:]+): ([^']+)'/g)];
  const headers = Object.fromEntries(pairs.map(([, name, value]) => [name!, value!]));
  const [, body = ""] = /-d '([^']+)'/.exec(curl) ?? [];
  await using installation = await testAgents({ agents: [RepoAgent], webhooks: [route], env });
  const answer = await installation.webhook("/webhooks/github", body, headers);
  expect([answer.status, await answer.text()]).toEqual([
    200,
    expect.stringMatching(/^[0-9a-f]{40} \w/),
  ]);
  expect(headers["x-github-event"]).toBe("push");
});
