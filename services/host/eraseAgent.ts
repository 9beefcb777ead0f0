/**
 * Ends the life of an agent for `agents erase`, on the host that owns it. Before this, `AgentSlot`
 * evicts the agent from memory with its inputs and local files; until this ends, it starts nothing.
 * After this, the caller removes what is stored of the agent.
 */
import type { AgentId, Epoch } from "../../schemas/Address.ts";
import type { SocketInfo } from "../../schemas/Call.ts";
import { closeAll } from "../../core/runtime/AgentSockets.ts";
import { endLife } from "../../core/journal/endLife.ts";
import { agentOutlet } from "./agentOutlet.ts";
import type { HostServices } from "./HostServices.ts";

export interface EraseOptions {
  readonly epoch: Epoch;
  readonly signal: AbortSignal;
  readonly sockets: Iterable<SocketInfo>;
}

/** Returns the sequence of the agent's last event. Rejects as `endLife` does. */
export async function eraseAgent(
  services: HostServices,
  id: AgentId,
  { epoch, signal, sockets }: EraseOptions,
): Promise<number> {
  const { journal, time, config, storing } = services;
  const outlet = agentOutlet(services);
  closeAll(sockets, outlet);
  const seq = await endLife(id, { journal, time, epoch, signal, host: config.hostId });
  // A snapshot that is being stored would arrive after the stored ones were removed.
  await Promise.all(storing);
  outlet.publishState(id, seq, time.nowMs(), undefined);
  return seq;
}
