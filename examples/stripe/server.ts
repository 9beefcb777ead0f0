/**
 * An agent per Stripe customer: it tracks by signed webhooks what the customer may use, and answers
 * at once. Stripe delivers events more than once and in any order; an older event changes nothing.
 *
 * Start it with `npx agents dev examples/stripe/server.ts`. README.md says what to try.
 */
import { Agent, routeAgentRequest, type Module } from "agents";
import { body, stripe, webhook } from "agents/webhooks";

/** The features that each price includes. */
export const PLANS: Readonly<Record<string, ReadonlyArray<string>>> = {
  price_basic: ["export"],
  price_team: ["export", "sso", "audit"],
};

interface Subscription {
  readonly id: string;
  readonly status: string;
  readonly items: { readonly data: ReadonlyArray<{ readonly price: { readonly id: string } }> };
}
interface StripeEvent {
  readonly type: string;
  readonly created: number;
  readonly data: { readonly object: Subscription };
}

export interface Entitlements {
  readonly features: ReadonlyArray<string>;
}

export class StripeCustomer extends Agent<Record<string, unknown>, Entitlements> {
  override initialState: Entitlements = { features: [] };

  override onStart(): void {
    this.sql`CREATE TABLE IF NOT EXISTS subscriptions (
      id TEXT PRIMARY KEY, status TEXT NOT NULL, prices TEXT NOT NULL, at INTEGER NOT NULL
    )`;
  }

  override async onRequest(request: Request): Promise<Response> {
    const event = (await request.json()) as StripeEvent;
    if (event.type.startsWith("customer.subscription.")) this.#take(event);
    return new Response("OK");
  }

  /** For the application: whether the customer may use a feature. */
  may(feature: string): boolean {
    return this.state.features.includes(feature);
  }

  #take({ created, data: { object } }: StripeEvent): void {
    const prices = object.items.data.map(({ price }) => price.id);
    // An event older than the state arrived late.
    this.sql`INSERT INTO subscriptions VALUES
      (${object.id}, ${object.status}, ${JSON.stringify(prices)}, ${created})
      ON CONFLICT (id) DO UPDATE SET status = excluded.status, prices = excluded.prices, at = excluded.at
      WHERE excluded.at >= at`;
    const active = this.sql<{ prices: string }>`SELECT prices FROM subscriptions
      WHERE status IN ('active', 'trialing')`;
    const paid = active.flatMap((row) => JSON.parse(row.prices) as string[]);
    const features = new Set(paid.flatMap((price) => PLANS[price] ?? []));
    this.setState({ features: [...features].toSorted() });
  }
}

export default {
  webhooks: [
    webhook("/webhooks/stripe", {
      agent: StripeCustomer,
      verify: stripe({ secret: "STRIPE_WEBHOOK_SECRET" }),
      entity: body("data.object.customer"),
    }),
  ],
  // Answers the application's own servers. Add your own authentication in front of it.
  async fetch(request, env: Record<string, unknown>) {
    const [, customer, feature] =
      /^\/customers\/([^/]+)\/may\/([^/]+)$/.exec(new URL(request.url).pathname) ?? [];
    if (customer === undefined || feature === undefined)
      return (await routeAgentRequest(request, env)) ?? new Response("Not found", { status: 404 });
    const { getAgentByName } = await import("agents");
    const agent = await getAgentByName<StripeCustomer>(env["StripeCustomer"] as never, customer);
    return Response.json({ may: await agent.may(feature) });
  },
} satisfies Module<Record<string, unknown>>;
