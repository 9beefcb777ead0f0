import { expect, test } from "vitest";
import { Agent } from "agents";
import { testAgents } from "agents/testing";
import {
  body as bodyField,
  escapedSlug,
  github,
  hmac,
  slack,
  stripe,
  webhook,
} from "agents/webhooks";
import { STARTERS, type Starter } from "../../services/cli/init/starters.ts";
import { signedCurl } from "../../services/cli/serving/signedCurl.ts";

const VERIFIERS = { github, hmac, slack, stripe };

/** Reads what README's agent reads. */
class RepoAgent extends Agent {
  override async onRequest(request: Request) {
    const { head_commit } = (await request.json()) as {
      head_commit?: { id: string; message: string };
    };
    return new Response(head_commit ? `${head_commit.id} ${head_commit.message}` : "Not a push");
  }
}

const URL_HERE = { url: "http://here", nowSeconds: 1 };
const bodyOf = (curl: string): string => /-d '([^']+)'/.exec(curl)?.[1] ?? "";

test("the curl that dev prints is a signed push with a commit", async () => {
  const env = { GITHUB_WEBHOOK_SECRET: "s" };
  const route = webhook("/webhooks/github", {
    agent: RepoAgent,
    verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }),
    entity: bodyField("repository.full_name", escapedSlug),
  });
  const curl = signedCurl(route, { ...URL_HERE, env })!;
  const pairs = [...curl.matchAll(/-H '([^:]+): ([^']+)'/g)];
  const headers = Object.fromEntries(pairs.map(([, name, value]) => [name!, value!]));
  const body = bodyOf(curl);
  await using installation = await testAgents({ agents: [RepoAgent], webhooks: [route], env });
  const answer = await installation.webhook("/webhooks/github", body, headers);
  expect([answer.status, await answer.text()]).toEqual([
    200,
    expect.stringMatching(/^[0-9a-f]{40} \w/),
  ]);
  expect(headers["x-github-event"]).toBe("push");
});

test.each(Object.entries<Starter>(STARTERS))(
  "the project of init for %s announces a curl if there is one, and its page shows that agent",
  (_name, { verifier, secret, path, curl, sample }) => {
    const verify = VERIFIERS[verifier as keyof typeof VERIFIERS]({ secret });
    const route = webhook(path, { agent: RepoAgent, verify, entity: bodyField("any") });
    const printed = signedCurl(route, { ...URL_HERE, env: { [secret]: "s" } });
    expect(printed !== undefined).toBe(curl === true);
    if (printed === undefined) return;
    const { repository } = JSON.parse(bodyOf(printed)) as { repository: { full_name: string } };
    expect(escapedSlug(repository.full_name)).toBe(sample.agentName);
  },
);
