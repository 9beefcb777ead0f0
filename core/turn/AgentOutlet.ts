/**
 * Where an agent's outputs go: the host's adapters for gateways and for published states.
 * `LiveState` and `AgentSockets` call it, always behind the output gate.
 */
import type { AgentId } from "../../schemas/Address.ts";
import type { GatewayMessage } from "../../schemas/bus/GatewayMessage.ts";

/** Called only after the output gate (`Committer`, 2). */
export interface AgentOutlet {
  readonly toGateway: (gateway: string, message: GatewayMessage, body?: Uint8Array) => void;
  /** `state` is JSON text; undefined: unset. */
  readonly publishState: (
    id: AgentId,
    seq: number,
    timeMs: number,
    state: string | undefined,
  ) => void;
}
