/**
 * Corrects what commander makes of environment variables, once it has parsed a command line.
 *
 * 1. A flag, which is an option without a value, is what its variable says: commander sets a flag
 *    if the variable exists, so `AGENTS_MCP_ALLOW_LOOPBACK=false` would set it.
 * 2. An empty variable is as good as none: a compose file sets variables that its .env omits to
 *    nothing. A number's or a list's reader has refused it before.
 */
import type { Command, Option } from "commander";

const FLAG_VALUES: Readonly<Record<string, boolean>> = {
  "": false,
  0: false,
  1: true,
  false: false,
  no: false,
  off: false,
  on: true,
  true: true,
  yes: true,
};

/**
 * Throws `CommanderError` for a flag's variable whose value is neither yes nor no, and for an empty
 * one of an option that the command needs.
 */
export function readVariables(command: Command): void {
  for (const option of command.options) {
    const name = option.attributeName();
    if (command.getOptionValueSource(name) !== "env") continue;
    const text = process.env[option.envVar!] ?? "";
    if (option.isBoolean())
      command.setOptionValueWithSource(name, flagOf(command, option, text), "env");
    else if (text === "") {
      if (option.mandatory)
        command.error(
          `error: required option '${option.flags}' not specified (${option.envVar} is empty)`,
        );
      command.setOptionValueWithSource(name, option.defaultValue, "default");
    }
  }
}

/** Rule 1. */
function flagOf(command: Command, option: Option, text: string): boolean {
  const value = FLAG_VALUES[text.toLowerCase()];
  if (value !== undefined) return value;
  command.error(
    `error: option '${option.flags}' value '${text}' from env '${option.envVar}' is invalid. Use 1, true or yes; or 0, false or no.`,
  );
}
