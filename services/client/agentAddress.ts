/**
 * How a client's options name an agent, as PartySocket builds URLs:
 * `{scheme}://{host}/{basePath | prefix/agent/name}[/path]?_pk=…&query` (`protocol.md` §4.1).
 * Names go in as they are: the server takes path segments raw.
 */
import { camelCaseToKebabCase } from "../../schemas/kebabCase.ts";

/** The instance that is meant when no name is given. */
export const DEFAULT_NAME = "default";
const DEFAULT_PREFIX = "agents";

export interface AgentAddress {
  /** Class of the agent, in any case: `RepoAgent` or `repo-agent`. */
  readonly agent: string;
  /** Name of the instance; default "default". */
  readonly name?: string | undefined;
  /** Host and port, e.g. "example.com" or "localhost:8787". */
  readonly host?: string | undefined;
  /** A path of the server's own choosing in place of `prefix/agent/name`; without a leading slash. */
  readonly basePath?: string | undefined;
  /** First segments of the path; default "agents". */
  readonly prefix?: string | undefined;
}

export interface PartyAddress {
  readonly host: string;
  readonly prefix: string;
  readonly party: string;
  readonly room: string;
}

/** Throws `TypeError` for options that name no agent or no host. `what` is who was called, for the text. */
export function partyAddress(options: AgentAddress, what: string): PartyAddress {
  const { agent, name, host, prefix } = options;
  if (typeof agent !== "string" || agent === "")
    throw new TypeError(`${what}: "agent" is missing: the class of the agent, e.g. "repo-agent"`);
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
