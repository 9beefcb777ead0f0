/** What every command's `add…` function receives from `program`, beside the program itself. */
import type { Joins } from "../../wiring/Joins.ts";
import type { Terminal } from "../terminal/Terminal.ts";

export interface CommandContext {
  readonly joins: Joins;
  readonly terminal: Terminal;
  /** The whole command line without `node` and the script: workers are started with it. */
  readonly args: ReadonlyArray<string>;
}
