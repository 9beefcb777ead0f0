/**
 * Passes questions that MCP servers ask the agent's user during a call to the handlers that the
 * agent has configured. Questions past a server's limit are answered as cancelled.
 */
import type { AgentWork } from "../turn/AgentWork.ts";
import type { ElicitRequest, ElicitResult } from "./McpClients.ts";

/** Questions of one server at a time. */
const ELICITATIONS_MAX = 8;

type ElicitationHandler = (
  request: ElicitRequest,
  serverId: string,
  signal?: AbortSignal,
) => Promise<ElicitResult>;
export interface ElicitationHandlers {
  readonly form?: ElicitationHandler;
  readonly url?: ElicitationHandler;
}

export class Elicitations {
  handlers: ElicitationHandlers = {};
  private readonly asking = new Map<string, number>();

  constructor(private readonly runtime: Pick<AgentWork, "inBackground">) {}

  /** The requests that a server may make. Undefined: none. */
  get capability(): Readonly<Record<string, object>> | undefined {
    const { form, url } = this.handlers;
    if (form === undefined && url === undefined) return undefined;
    return {
      ...(form === undefined ? {} : { form: {} }),
      ...(url === undefined ? {} : { url: {} }),
    };
  }

  /** Rejects with what the handler throws. */
  async ask(request: ElicitRequest, serverId: string, signal: AbortSignal): Promise<ElicitResult> {
    const handler = request.params.mode === "url" ? this.handlers.url : this.handlers.form;
    const asked = this.asking.get(serverId) ?? 0;
    if (handler === undefined || asked >= ELICITATIONS_MAX) return { action: "cancel" };
    this.asking.set(serverId, asked + 1);
    try {
      return await this.runtime.inBackground(() => handler(request, serverId, signal));
    } finally {
      this.asking.set(serverId, (this.asking.get(serverId) ?? 1) - 1);
    }
  }
}
