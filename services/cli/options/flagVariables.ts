/**
 * The environment variables of flags, which are options without a value. Commander sets a flag if
 * its variable exists, whatever it contains, so `AGENTS_MCP_ALLOW_LOOPBACK=false` would set it.
 * After it has parsed a command line, `readFlagVariables` reads the variables' values.
 */
import type { Command, Option } from "commander";

/** Empty, because a compose file sets variables that its .env omits to nothing. */
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

/** Throws `CommanderError` for a variable whose value is neither yes nor no. */
export function readFlagVariables(command: Command): void {
  for (const option of command.options) {
    const name = option.attributeName();
    if (!option.isBoolean() || command.getOptionValueSource(name) !== "env") continue;
    command.setOptionValueWithSource(name, valueOf(command, option), "env");
  }
}

function valueOf(command: Command, option: Option): boolean {
  const text = process.env[option.envVar!] ?? "";
  const value = FLAG_VALUES[text.toLowerCase()];
  if (value !== undefined) return value;
  command.error(
    `error: option '${option.flags}' value '${text}' from env '${option.envVar}' is invalid. Use 1, true or yes; or 0, false or no.`,
  );
}
