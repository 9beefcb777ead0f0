/**
 * Builds a `curl` command that sends one signed webhook to a route, to try it without the provider.
 * Only GitHub's routes have one: other providers' events have no field that selects the agent in
 * every module.
 */
import type { WebhookRoute } from "../../../core/webhook/WebhookRoute.ts";
import { sign } from "../../webhooks/sign.ts";

interface CurlOptions {
  /** The gateway's URL. */
  readonly url: string;
  readonly env: Readonly<Record<string, string>>;
  readonly nowSeconds: number;
}

/** Returns undefined if the route is not for GitHub or has parameters, or its secret is not set. */
export function signedCurl(route: WebhookRoute, options: CurlOptions): string | undefined {
  const names = route.verifier.secretNames ?? [];
  const secret = names.map((name) => options.env[name]).find((value) => value !== undefined);
  if (route.verifier.provider !== "github" || secret === undefined || route.path.includes(":"))
    return undefined;
  const body = JSON.stringify(samplePush());
  // Unique for each start. Pasting the same command twice sends a redelivery.
  const id = `try-${options.nowSeconds}`;
  const headers = {
    "content-type": "application/json",
    ...sign.github(body, secret, { id, event: "push" }),
  };
  const lines = [
    `curl -i ${options.url}${route.path}`,
    ...Object.entries(headers).map(([name, value]) => `-H '${name}: ${value}'`),
    `-d '${body}'`,
  ];
  return lines.map((line, i) => (i === 0 ? "  " : "    ") + line).join(" \\\n");
}

/**
 * The part of GitHub's `push` event that routing, README's agent and the example read, without
 * characters that a shell would interpret.
 */
function samplePush() {
  const commit = { id: "7fd1a60b01f91b314f59955a4e4d4e80d8edf11d", message: "Say hello" };
  return {
    ref: "refs/heads/main",
    head_commit: commit,
    commits: [commit],
    repository: {
      full_name: "octocat/hello-world",
      html_url: "https://github.com/octocat/hello-world",
    },
    sender: { login: "octocat" },
  };
}
