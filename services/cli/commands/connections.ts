/**
 * `agents connections <class> <name>`: the open WebSocket connections of an agent, as the host that
 * owns its shard knows them. The agent is not woken. One that was hibernated keeps its connections.
 */
import { Option, type Command } from "commander";
import { AgentUnreachable } from "../../../core/call/AgentUnreachable.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import { counted } from "../../../schemas/counted.ts";
import { addressKey } from "../../../schemas/Address.ts";
import type { ConnectionsReply, ListedConnection } from "../../../schemas/bus/SocketLists.ts";
import type { ReadPorts } from "../../wiring/ReadPorts.ts";
import { address, findAgent, resolveClass } from "../agents/findAgent.ts";
import { refusedByHost } from "../agents/refusedByHost.ts";
import type { CommandContext } from "../options/CommandContext.ts";
import * as option from "../options/options.ts";
import { addTargetOptions, withoutSql, type GivenTarget } from "../options/targetOptions.ts";
import { failed } from "../terminal/CliError.ts";
import type { Terminal } from "../terminal/Terminal.ts";

interface ConnectionsOptions {
  readonly className: string;
  readonly name: string;
  readonly limit?: number | undefined;
  /** Connections before the first. */
  readonly skip?: number | undefined;
  readonly json?: boolean | undefined;
  /** Whether an agent that nothing is stored for has to have connections. Default: no. */
  readonly mustExist?: boolean;
}

/** As many as a host lists at once. */
const LIMIT_DEFAULT = 100;
/** More than a host has. */
const SKIP_MAX = 1_000_000_000;
/** A shard that has no host for longer is without one. */
const ANSWER_MS = 5_000;

type Given = GivenTarget & Pick<ConnectionsOptions, "limit" | "skip">;

export function addConnections(program: Command, context: CommandContext): void {
  const { terminal } = context;
  addTargetOptions(program.command("connections"), "<class>", "<name>")
    .description(
      "Lists an agent's open WebSocket connections, without waking it. Asks the agent's host, which needs the broker login of operator (deploy/nats).",
    )
    .addOption(
      option.count(
        "--limit <count>",
        `maximum number of connections, up to ${LIMIT_DEFAULT} (default: ${LIMIT_DEFAULT})`,
      ),
    )
    .addOption(
      new Option("--skip <count>", "number of connections to skip").argParser((text: string) =>
        option.readWhole(text, 0, SKIP_MAX),
      ),
    )
    .addHelpText(
      "after",
      `
--json prints one object:
  {agent, total, connections: [{id, sid, gateway, since?, tags, stateBytes, readonly, protocol,
    reads, traffic?: {framesIn, bytesIn, framesOut, bytesOut}}]}
agent is inMemory, hibernated, isolated or quarantined; since is in milliseconds since the epoch.
traffic is what the gateway has passed on since the connection opened: frames without pings, and
bytes before compression; in is from the client. It is absent if the gateway does not answer.

Examples:
  agents connections repo-agent octocat~hello-world
  agents connections RepoAgent octocat~hello-world --json | jq .total`,
    )
    .action((className: string, name: string, given: Given) =>
      withoutSql(context, given, (ports) =>
        connections(ports, terminal, { ...given, className, name, mustExist: true }),
      ),
    );
}

/** Throws `CliError` for an invalid name, an unknown agent, and a host that does not answer. */
export async function connections(
  ports: Pick<ReadPorts, "journal" | "calls" | "leases" | "shards">,
  terminal: Terminal,
  { className, name, limit = LIMIT_DEFAULT, skip = 0, json, mustExist = false }: ConnectionsOptions,
): Promise<void> {
  const id = address(await resolveClass(ports.journal, className), name);
  const call = { kind: "connections", skip, limit } as const;
  const unknown = `The connections of ${addressKey(id)} are not known`;
  const { reply } = await ports.calls
    .call(id, call, { deadlineMs: ANSWER_MS, repeatable: true })
    .catch((error: unknown) => {
      if (!(error instanceof AgentUnreachable)) throw error;
      throw failed(
        `${unknown}: no host answered. Either none owns its shard, or the broker's login may not ask hosts (use operator).`,
      );
    });
  if (reply.kind !== "result") throw await refusedByHost(ports, id, { what: unknown, reply });
  const found = reply.value as ConnectionsReply;
  // Nothing is stored for an agent that has only been connected to.
  if (mustExist && found.total === 0 && found.agent === "hibernated")
    await findAgent(ports.journal, className, name);
  if (json) return terminal.out(JSON.stringify(found));
  for (const connection of found.connections) terminal.out(oneLine(line(connection)));
  const { agent, total } = found;
  terminal.err(`${counted(total, "connection")}, the agent is ${PLACES[agent]}`);
  const rest = total - skip - found.connections.length;
  if (rest > 0) terminal.err(`${rest} more: --skip ${skip + found.connections.length}`);
}

const PLACES = {
  inMemory: "in memory",
  hibernated: "hibernated",
  isolated: "in a process of its own, which may have more",
  quarantined: "quarantined",
} as const;

function line({
  id,
  since,
  tags,
  stateBytes,
  gateway,
  traffic,
  ...flags
}: ListedConnection): string {
  const own = tags.filter((tag) => tag !== id);
  return [
    since === undefined ? "unknown" : new Date(since).toISOString(),
    id,
    ...(own.length === 0 ? [] : [`tags ${own.join(" ")}`]),
    `state ${stateBytes} bytes`,
    ...(traffic === undefined
      ? []
      : [
          `in ${framesText(traffic.framesIn)}, ${traffic.bytesIn} bytes`,
          `out ${framesText(traffic.framesOut)}, ${traffic.bytesOut} bytes`,
        ]),
    ...(flags.readonly ? ["readonly"] : []),
    ...(flags.protocol ? [] : ["no protocol frames"]),
    ...(flags.reads === 0 ? [] : [`reads ${flags.reads} streams`]),
    `at ${gateway}`,
  ].join("  ");
}

const framesText = (count: number): string => counted(count, "frame");
