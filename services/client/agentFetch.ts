/** HTTP to an agent, at the address that `AgentClient` connects to. */
import { PartySocket, type PartyFetchOptions } from "partysocket";
import { partyAddress, type AgentAddress } from "./agentAddress.ts";

/** Options of `agentFetch`: the agent's address, with `host`, and PartySocket's for `fetch`. */
export type AgentFetchOptions = Omit<PartyFetchOptions, "party" | "room"> & AgentAddress;

/**
 * Sends an HTTP request to `{http|https}://{host}/{basePath | agents/agent/name}[/path]?query`. The
 * scheme follows from the host unless `protocol` is set; `query` may be a function. Rejects as
 * `fetch` does, and with `TypeError` for options that name no agent or no host.
 */
export async function agentFetch(
  options: AgentFetchOptions,
  init?: RequestInit,
): Promise<Response> {
  return PartySocket.fetch({ ...options, ...partyAddress(options, "agentFetch") }, init);
}
