/**
 * Corrects what commander makes of environment variables and of empty values, once it has parsed a
 * command line.
 *
 * 1. A flag, which is an option without a value, is what its variable says: commander sets a flag
 *    if the variable exists, so `AGENTS_MCP_ALLOW_LOOPBACK=false` would set it.
 * 2. An empty variable is as good as none: a compose file sets variables that its .env omits to
 *    nothing. A number's or a list's reader has refused it before.
 * 3. An empty value on the command line is refused. It is nearly always a variable of the shell
 *    that is not set, as in `--hostname "$HOST"`: an empty host name would mean every address, and
 *    an empty path this folder.
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
 * Throws `CommanderError` for a flag's variable whose value is neither yes nor no, for an empty one
 * of an option that the command needs, and for an empty value on the command line.
 */
export function readVariables(command: Command): void {
  for (const option of command.options) {
    const name = option.attributeName();
    const source = command.getOptionValueSource(name);
    // Rule 3.
    if (source === "cli" && command.getOptionValue(name) === "")
      command.error(
        `error: option '${option.flags}' argument '' is invalid. It is empty: give a value, or leave the option out.`,
      );
    if (source !== "env") continue;
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
