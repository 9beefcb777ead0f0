/**
 * Parsers for the values of arguments and options. Commander calls them before a command's action,
 * so that a wrong value is reported (exit code 2) before the broker is tried. The console calls the
 * same readers for the values of its requests.
 *
 * A reader throws `CliError` with a sentence that says which values are possible. `parsed` makes a
 * commander parser of a reader: commander's error then names the option or argument, and the value.
 */
import { InvalidArgumentError } from "commander";
import { agentId, InvalidAddress } from "../../../schemas/Address.ts";
import { CliError, usage } from "../terminal/CliError.ts";

export const parsed =
  <A>(read: (text: string) => A) =>
  (text: string): A => {
    try {
      return read(text);
    } catch (error) {
      if (error instanceof CliError) throw new InvalidArgumentError(error.message);
      throw error;
    }
  };

/** The text of a class name, as in code or in kebab case. Throws `CliError`. */
export function readClass(text: string): string {
  if (/^[A-Za-z_$][\w$-]*$/.test(text)) return text;
  throw usage("Use the name of an agent class, as in RepoAgent or repo-agent.");
}

/** Throws `CliError` for a text that can't be an agent's name. */
export function readName(text: string): string {
  try {
    return agentId("Any", text).name;
  } catch (error) {
    if (error instanceof InvalidAddress) throw usage(`${error.message}.`);
    throw error;
  }
}

/** One agent, or all agents of a class. The class may be in kebab case. */
export interface ChosenAgents {
  readonly className: string;
  readonly name?: string;
}

/** Parses `RepoAgent/acme~site` or `RepoAgent`. Throws `CliError`. */
export function readAgents(text: string): ChosenAgents {
  const slash = text.indexOf("/");
  if (slash === -1) return { className: readClass(text) };
  return { className: readClass(text.slice(0, slash)), name: readName(text.slice(slash + 1)) };
}

/** An event of an agent. The class may be in kebab case. */
export interface ChosenEvent extends Required<ChosenAgents> {
  readonly seq: number;
}

/** Parses `RepoAgent/acme~site@42`; names may contain slashes and `@`. Throws `CliError`. */
export function readEvent(text: string): ChosenEvent {
  const [, className, name, seq] = /^([^/]+)\/(.+)@(\d+)$/s.exec(text) ?? [];
  if (className === undefined || name === undefined)
    throw usage("Use an event of an agent, as in RepoAgent/acme~site@42.");
  return { className: readClass(className), name: readName(name), seq: Number(seq) };
}

/**
 * Strict, so that the meaning of "12" and "null" does not depend on what happens to be valid JSON.
 * Throws `CliError`.
 */
export function readJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw usage(`Use JSON. A string needs its own quotes: '${JSON.stringify(text)}'.`);
  }
}
