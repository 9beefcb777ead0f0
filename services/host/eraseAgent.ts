/**
 * The end of an agent that `agents erase` removes, on the host that owns it. `AgentSlot` has thrown it out of memory
 * before, with its inputs and local files, and lets nothing begin until this is through. What is stored of it is
 * removed by whoever asked, after this.
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

/** The journal's sequence then. Rejects as `endLife` does. */
export async function eraseAgent(
  services: HostServices,
  id: AgentId,
  { epoch, signal, sockets }: EraseOptions,
): Promise<number> {
  const { journal, time, config, storing } = services;
  const outlet = agentOutlet(services);
  closeAll(sockets, outlet);
  const seq = await endLife(id, { journal, time, epoch, signal, host: config.hostId });
  // A snapshot that is on its way would come after what is there was removed.
  await Promise.all(storing);
  outlet.publishState(id, seq, time.nowMs(), undefined);
  return seq;
}
