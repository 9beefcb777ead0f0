/** The module of the steps bench: a webhook's turn that calls once, or thrice, and then writes. */
import { Agent } from "agents";
import { body, unsigned, webhook } from "agents/webhooks";

const CALL = "x".repeat(100);

export class Caller extends Agent<{ WORLD: string }, { readonly count: number }> {
  override initialState = { count: 0 };

  override async onRequest(request: Request): Promise<Response> {
    const { how } = (await request.json()) as { readonly how: string };
    await this.call(how);
    this.setState({ count: this.state.count + 1 });
    return new Response("OK");
  }

  private async call(how: string): Promise<void> {
    const { WORLD } = this.env;
    const init = { method: "POST", body: CALL };
    const plain = async (): Promise<string> => CALL;
    if (how === "await") await plain();
    else if (how === "step") await this.step("call", plain);
    else if (how === "three steps") for (let n = 0; n < 3; n++) await this.step("call", plain);
    else if (how === "fetch") await (await fetch(WORLD, init)).text();
    else if (how === "this.fetch") await (await this.fetch(WORLD, init)).text();
    else await (await this.fetch(WORLD, { ...init, record: true })).text();
  }
}

export default {
  webhooks: [
    webhook("/webhooks/calls", {
      agent: Caller,
      verify: unsigned(),
      entity: body("agent", { trust: true }),
    }),
  ],
};
