/** The agents of the webhook bench, and the same that go to sleep as soon as they may. */
import { Agent } from "agents";
import { body, github, slug, webhook } from "agents/webhooks";
import counting, { CountingAgent } from "./countingAgents.ts";

export { CountingAgent };

export class SeldomAgent extends CountingAgent {
  static override options = { hibernateAfterSeconds: 0.1 };
}

/** Without a table. */
export class PlainAgent extends Agent<unknown, { readonly count: number }> {
  static override options = { hibernateAfterSeconds: 0.1 };
  override initialState = { count: 0 };

  override onRequest(): Response {
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }
}

const route = (at: string, agent: typeof CountingAgent | typeof PlainAgent) =>
  webhook(at, {
    agent,
    verify: github({ secret: "GITHUB_WEBHOOK_SECRET" }),
    entity: body("repository.full_name", slug),
  });

export default {
  ...counting,
  webhooks: [
    route("/webhooks/often", CountingAgent),
    route("/webhooks/seldom", SeldomAgent),
    route("/webhooks/plain", PlainAgent),
  ],
};
