/**
 * The error for a command whose question a host has refused. Hosts of an older release refuse
 * questions that they don't know, without a reason. Leases name hosts, and not their releases.
 */
import { keyOfShard, SHARD_KEYS } from "../../../core/lease/leaseKeys.ts";
import { shardOf, type AgentId } from "../../../schemas/Address.ts";
import type { CallReply } from "../../../schemas/bus/CallReply.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { failed, type CliError } from "../terminal/CliError.ts";

/** `what`: what the command lacks now, such as `The connections of Repo/acme are not known`. */
export async function refusedByHost(
  { leases, shards }: Pick<ReadPorts, "leases" | "shards">,
  id: AgentId,
  { what, reply }: { readonly what: string; readonly reply: CallReply },
): Promise<CliError> {
  const key = keyOfShard(shardOf(id, shards));
  const owner = (await leases.list(SHARD_KEYS)).find((lease) => lease.key === key);
  const host = owner === undefined ? "its host" : `the host ${owner.value}`;
  return failed(
    `${what}: ${host} refused the question (${reply.kind === "error" ? reply.message : reply.kind}). If it is of an older release than this command, update it; else its log says why.`,
  );
}
