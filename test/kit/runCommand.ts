/** One `agents` command in the test's own process: its output and its end (cf. `runAgents`). */
import type { Joins } from "../../services/wiring/Joins.ts";
import { commandJoins } from "../../services/wiring/joinCommands.ts";
import { runProgram } from "../../services/cli/program.ts";
import { CliError } from "../../services/cli/terminal/CliError.ts";
import type { Terminal } from "../../services/cli/terminal/Terminal.ts";
import type { AgentsRun } from "./runAgents.ts";

/** What commands of the package use, without workers. */
const JOINS = commandJoins({
  link: undefined,
  startWorker: () => {
    throw new Error("not in these tests");
  },
});

export interface CommandOptions {
  /** Default: the package's. */
  readonly joins?: Joins;
  /** In the place of a terminal that collects and is in no folder. */
  readonly terminal?: Partial<Terminal>;
}

/** Resolves with the exit code of a refused command, too. */
export async function runCommand(
  args: ReadonlyArray<string>,
  { joins = JOINS, terminal = {} }: CommandOptions = {},
): Promise<AgentsRun> {
  const out: string[] = [];
  const err: string[] = [];
  const io: Terminal = {
    out: (line) => void out.push(line),
    err: (line) => void err.push(line),
    interactive: false,
    env: {},
    cwd: "/nowhere",
    ...terminal,
  };
  let code: number;
  try {
    code = await runProgram(args, joins, io, "1.2.3");
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    io.err(error.message);
    code = error.exitCode;
  }
  return { code, out: out.join("\n"), err: err.join("\n") };
}
