/**
 * Stripe's deliveries: repeated, late, out of order; what the customer may use is right after each.
 */
import { expect, it } from "vitest";
import { testAgents, type TestAgents } from "agents/testing";
import * as server from "./server.ts";

const SECRET = "whsec_test";
const options = { module: server, env: { STRIPE_WEBHOOK_SECRET: SECRET } };
let last = 0;

async function deliver(
  test: TestAgents,
  created: number,
  status: string,
  price: string,
): Promise<number> {
  const event = {
    id: `evt_${++last}`,
    type: "customer.subscription.updated",
    created,
    data: {
      object: {
        id: "sub_1",
        customer: "cus_1",
        status,
        items: { data: [{ price: { id: price } }] },
      },
    },
  };
  const text = JSON.stringify(event);
  return (await test.webhook("/webhooks/stripe", text, test.sign.stripe(text, SECRET))).status;
}

it("a paid subscription entitles its customer, and nobody else", async () => {
  await using test = await testAgents(options);
  expect(await deliver(test, 100, "active", "price_team")).toBe(200);
  expect(await test.agent(server.StripeCustomer, "cus_1").may("sso")).toBe(true);
  expect(await test.agent(server.StripeCustomer, "cus_2").may("sso")).toBe(false);
  const answer = await test.fetch("/customers/cus_1/may/audit");
  expect(await answer.json()).toEqual({ may: true });
});

it("an event that arrives late changes nothing", async () => {
  await using test = await testAgents(options);
  await deliver(test, 200, "canceled", "price_team");
  await deliver(test, 100, "active", "price_team");
  expect(await test.agent(server.StripeCustomer, "cus_1").state()).toEqual({ features: [] });
});

it("a page that is open sees the change at once", async () => {
  await using test = await testAgents(options);
  const page = await test.connect(server.StripeCustomer, "cus_1");
  await deliver(test, 100, "active", "price_basic");
  expect(page.state).toEqual({ features: ["export"] });
});

it("an unsigned event is refused", async () => {
  await using test = await testAgents(options);
  expect((await test.webhook("/webhooks/stripe", "{}", {})).status).toBe(401);
});
