/** An agent whose first mail ends its host midway: for `killed.test.ts`, in own processes. */
import { existsSync, writeFileSync } from "node:fs";
import { Agent, routeAgentEmail, type AgentEmail } from "agents";
import { createAddressBasedEmailResolver } from "agents/email";

interface Env {
  /** A file; while it is not there the host is killed. */
  readonly MARK: string;
}

export class Mortal extends Agent<Env, { got: number }> {
  override initialState = { got: 0 };
  override async onEmail(email: AgentEmail): Promise<void> {
    this.setState({ got: this.state.got + 1 });
    await this.replyToEmail(email, { fromName: "Mortal", body: `number ${this.state.got}` });
    if (existsSync(this.env.MARK)) return;
    writeFileSync(this.env.MARK, "dead once");
    process.kill(process.pid, "SIGKILL");
    // The signal is on its way: nothing more happens here.
    await new Promise(() => undefined);
  }
}

export default {
  email: (message: AgentEmail, env: Env) =>
    routeAgentEmail(message, env, { resolver: createAddressBasedEmailResolver("mortal") }),
};
