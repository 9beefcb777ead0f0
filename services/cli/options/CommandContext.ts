/** The second argument of every command's `add…` function, after the program itself. */
import type { Command } from "commander";
import type { Joins } from "../../wiring/Joins.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export interface CommandContext {
  readonly joins: Joins;
  readonly terminal: Terminal;
  /** The whole command line without `node` and the script, with which workers are started. */
  readonly args: ReadonlyArray<string>;
  /** All commands, in the order of the help. */
  readonly commands: ReadonlyArray<ListedCommand>;
}

export type AddCommand = (program: Command, context: CommandContext) => void;

/** A command before its file is imported. */
export interface ListedCommand {
  readonly name: string;
  /** Its arguments, as in its own help. */
  readonly takes: string;
  /** One line in the list of commands. */
  readonly summary: string;
  readonly load: () => Promise<AddCommand>;
}
