/**
 * The address of an agent in a client's options, and the URL that PartySocket builds from it:
 * `{scheme}://{host}/{basePath | prefix/agent/name}[/path]?_pk=…&query` (`protocol.md` §4.1). Names
 * are not escaped, since the server reads path segments raw.
 */
import { camelCaseToKebabCase } from "../../schemas/kebabCase.ts";

/** Name of the instance if the options have none. */
export const DEFAULT_NAME = "default";
const DEFAULT_PREFIX = "agents";

/** Options that name an agent. */
export interface AgentAddress {
  /** Class of the agent, as `RepoAgent` or as `repo-agent`. */
  readonly agent: string;
  /** Name of the instance. Default "default". */
  readonly name?: string | undefined;
  /** Host and port, such as "example.com" or "localhost:8787". */
  readonly host?: string | undefined;
  /** A path of the app instead of `prefix/agent/name`, without a leading slash. */
  readonly basePath?: string | undefined;
  /** First segments of the path. Default "agents". */
  readonly prefix?: string | undefined;
}

/** The address under PartySocket's names. */
interface PartyAddress {
  readonly host: string;
  readonly prefix: string;
  readonly party: string;
  readonly room: string;
}

/**
 * Throws `TypeError` for options that name no agent or no host, and for a name that is no text.
 * `what` names the caller in the message.
 */
export function partyAddress(options: AgentAddress, what: string): PartyAddress {
  // JavaScript may pass no options at all.
  const { agent, name, host, prefix } = (options as AgentAddress | undefined) ?? {};
  if (typeof agent !== "string" || agent === "")
    throw new TypeError(`${what}: "agent" is missing: the class of the agent, e.g. "repo-agent"`);
  // JavaScript often has a number as a name, such as a row's id.
  if (typeof (name ?? DEFAULT_NAME) !== "string")
    throw new TypeError(`${what}: "name" must be text, not ${typeof name}: name: String(id)`);
  if (typeof host !== "string" || host === "")
    throw new TypeError(
      `${what}: "host" is missing: the server's host and port, e.g. location.host`,
    );
  return {
    host,
    prefix: prefix ?? DEFAULT_PREFIX,
    party: camelCaseToKebabCase(agent),
    room: name ?? DEFAULT_NAME,
  };
}
