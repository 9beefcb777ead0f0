/** An agent that calls another and reports the result, and one that answers slowly. */
import { Agent } from "agents";

interface Env {
  readonly SlowAgent: {
    readonly getByName: (name: string) => { readonly wait: () => Promise<string> };
  };
}
/** Longer than any test waits. */
const WAIT_MS = 300_000;
/** What a host prints when its agent has begun to wait. */
export const WAITS = "it waits";

export class SlowAgent extends Agent {
  async wait(): Promise<string> {
    console.error(WAITS);
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
    return "waited";
  }
}

export class CallerAgent extends Agent<Env> {
  override async onRequest(request: Request): Promise<Response> {
    const callee = new URL(request.url).searchParams.get("callee")!;
    try {
      return new Response(await this.env.SlowAgent.getByName(callee).wait());
    } catch (error) {
      return new Response(String(error));
    }
  }
}
