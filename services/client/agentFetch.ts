/** HTTP to an agent, at the address that `AgentClient` connects to. */
import { PartySocket, type PartyFetchOptions } from "partysocket";
import { partyAddress, type AgentAddress } from "./agentAddress.ts";

export type AgentFetchOptions = Omit<PartyFetchOptions, "party" | "room"> & AgentAddress;

/**
 * `fetch` of `{http|https}://{host}/{basePath | agents/agent/name}[/path]?query`: the scheme follows the
 * host unless `protocol` says it; `query` may be a function. Rejects as `fetch` does.
 */
export async function agentFetch(
  options: AgentFetchOptions,
  init?: RequestInit,
): Promise<Response> {
  return PartySocket.fetch({ ...options, ...partyAddress(options, "agentFetch") }, init);
}
