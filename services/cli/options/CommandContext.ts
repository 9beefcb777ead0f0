/** What every command's `add…` function receives from `program`, beside the program itself. */
import type { Command } from "commander";
import type { Joins } from "../../wiring/Joins.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export interface CommandContext {
  readonly joins: Joins;
  readonly terminal: Terminal;
  /** The whole command line without `node` and the script: workers are started with it. */
  readonly args: ReadonlyArray<string>;
  /** All that there are, in the order of the help. */
  readonly commands: ReadonlyArray<ListedCommand>;
}

export type AddCommand = (program: Command, context: CommandContext) => void;

/** A command before its file is imported. */
export interface ListedCommand {
  readonly name: string;
  /** What it takes, as its own help has it. */
  readonly takes: string;
  /** One line in the list of commands. */
  readonly summary: string;
  readonly load: () => Promise<AddCommand>;
}
