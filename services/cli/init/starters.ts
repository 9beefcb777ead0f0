/**
 * The starting points of `init`: one row for each kind of sender whose webhooks a new project can
 * receive. A row says what the agent stands for, how requests are verified and how the event names
 * its entity. `projectFiles` generates the files from it.
 */

export interface Starter {
  /** For the list in the command's help. */
  readonly summary: string;
  /** The agent class of the new project. */
  readonly agentClass: string;
  /** What one agent stands for, e.g. `GitHub repository`. */
  readonly entityNoun: string;
  /** The verifier's name in the package's `webhooks` entry. */
  readonly verifier: string;
  /** The environment variable with the secret. */
  readonly secret: string;
  /** The expression that finds the entity, and the names that it imports. */
  readonly entity: string;
  readonly entityImports: ReadonlyArray<string>;
  readonly path: string;
  /** Whether `dev` prints a signed curl for it (`serving/signedCurl`). */
  readonly curl?: true;
  /** Where to enter the URL and find the secret in the sender's settings. */
  readonly settings: string;
  /**
   * An event for the test, and the name of the agent that receives it: GitHub's is the one that the
   * signed curl of `dev` reaches.
   */
  readonly sample: { readonly body: object; readonly event: string; readonly agentName: string };
}

export const STARTERS = {
  github: {
    summary: "one agent per GitHub repository",
    agentClass: "RepoAgent",
    entityNoun: "GitHub repository",
    verifier: "github",
    secret: "GITHUB_WEBHOOK_SECRET",
    entity: 'body("repository.full_name", escapedSlug)',
    entityImports: ["body", "escapedSlug"],
    path: "/webhooks/github",
    curl: true,
    settings: "the repository's Settings > Webhooks, content type application/json",
    sample: {
      body: { repository: { full_name: "octocat/hello-world" } },
      event: "push",
      agentName: "octocat~hello-world",
    },
  },
  stripe: {
    summary: "one agent per Stripe customer",
    agentClass: "CustomerAgent",
    entityNoun: "Stripe customer",
    verifier: "stripe",
    secret: "STRIPE_WEBHOOK_SECRET",
    entity: 'body("data.object.customer")',
    entityImports: ["body"],
    path: "/webhooks/stripe",
    settings: "the Stripe dashboard, Developers > Webhooks",
    sample: {
      body: { id: "evt_1", type: "invoice.paid", data: { object: { customer: "cus_1" } } },
      event: "invoice.paid",
      agentName: "cus_1",
    },
  },
  slack: {
    summary: "one agent per Slack workspace",
    agentClass: "WorkspaceAgent",
    entityNoun: "Slack workspace",
    verifier: "slack",
    secret: "SLACK_SIGNING_SECRET",
    entity: 'body("team_id")',
    entityImports: ["body"],
    path: "/webhooks/slack",
    settings: "your Slack app's Event Subscriptions; the secret is under Basic Information",
    sample: {
      body: {
        type: "event_callback",
        team_id: "T1",
        event_id: "Ev1",
        event: { type: "app_mention" },
      },
      event: "app_mention",
      agentName: "T1",
    },
  },
  hmac: {
    summary: "one agent per entity of your own system, whose requests an HMAC signs",
    agentClass: "DeviceAgent",
    entityNoun: "device",
    verifier: "hmac",
    secret: "WEBHOOK_SECRET",
    entity: 'body("device")',
    entityImports: ["body"],
    path: "/webhooks/devices",
    settings: "your sender: X-Hub-Signature-256: sha256=<hex HMAC-SHA-256 of the body>",
    sample: { body: { device: "lamp-7", on: true }, event: "", agentName: "lamp-7" },
  },
} as const satisfies Readonly<Record<string, Starter>>;

export type StarterName = keyof typeof STARTERS;

export const STARTER_NAMES = Object.keys(STARTERS) as ReadonlyArray<StarterName>;
