/**
 * The commands by group, in the order of the help. A command's file is imported when its command is
 * given: the list of commands, and a command that only reads, are there before the adapters of the
 * others could be.
 */
import type { AddCommand, ListedCommand } from "./options/CommandContext.ts";

const command = (
  usage: string,
  summary: string,
  load: () => Promise<AddCommand>,
): ListedCommand => {
  const [name, ...takes] = usage.split(" ");
  return { name: name!, takes: takes.join(" "), summary, load };
};

export const COMMAND_GROUPS: ReadonlyArray<
  readonly [heading: string, commands: ReadonlyArray<ListedCommand>]
> = [
  [
    "Starting:",
    [
      command("init [options] [folder]", "write a new project", async () =>
        (await import("./init/init.ts")).addInit), // prettier-ignore
    ],
  ],
  [
    "Serving:",
    [
      command("dev [options] [module]", "run everything for one folder, and load the module again when it changes", async () => (await import("./commands/dev.ts")).addDev),
      command("gateway [options] [module]", "serve HTTP, WebSockets and webhooks", async () => (await import("./roles/gateway.ts")).addGateway),
      command("host [options] [module]", "run agents", async () => (await import("./roles/host.ts")).addHost),
      command("mail [options] [module]", "take mail by SMTP", async () => (await import("./roles/mail.ts")).addMail),
      command("retention [options] [module]", "trim history to what classes keep", async () => (await import("./roles/retention.ts")).addRetention),
      command("provision [options]", "create an installation's streams on a broker, or change their copies", async () => (await import("./roles/provision.ts")).addProvision),
    ],
  ],
  [
    "Looking:",
    [
      command("list [options] [class]", "which agents exist, of one class or all", async () => (await import("./commands/list.ts")).addList),
      command("history [options] <class> <name>", "what happened to an agent, turn by turn", async () => (await import("./commands/history.ts")).addHistory),
      command("why [options] <class> <name> <path>", "which turns wrote a field of the state, or a row of a table", async () => (await import("./commands/why.ts")).addWhy),
      command("diff [options] <class> <name>", "how an agent at one point differs from itself at another", async () => (await import("./commands/diff.ts")).addDiff),
      command("deliveries [options]", "requests to webhook routes, and what became of each", async () => (await import("./commands/deliveries.ts")).addDeliveries),
      command("state [options] <class> <name>", "an agent's state, now or at any point of its history", async () => (await import("./commands/state.ts")).addState),
      command("top [options] [class]", "what classes and the busiest agents cost, live", async () => (await import("./commands/top.ts")).addTop),
      command("rerun [options] <class> <name> [module]", "what other code makes of an agent's past", async () => (await import("./commands/rerun.ts")).addRerun),
      command("sql [options] <class> <name> <query>", "query an agent's database, now or at any point of its history", async () => (await import("./commands/sql.ts")).addSql),
      command("query [options] [sql]", "one SELECT over all agents", async () => (await import("./commands/query.ts")).addQuery),
      command("schedules [options] <class> <name>", "what an agent has scheduled, now or at any point of its history", async () => (await import("./commands/schedules.ts")).addSchedules),
      command("approvals [options] <class> [name]", "what people are asked by an agent, or by all of a class", async () => (await import("./commands/approvals.ts")).addApprovals),
      command("tail [options] [class] [name]", "watch turns as they are committed", async () => (await import("./commands/tail.ts")).addTail),
      command("console [options]", "an operator's page: agents, their turns, state and rows at any turn", async () => (await import("./commands/console.ts")).addConsole),
    ],
  ],
  [
    "Acting:",
    [
      command("call [options] <class> <name> <method> [json...]", "call a method of an agent", async () => (await import("./commands/call.ts")).addCall),
      command("erase [options] [class] [name]", "remove an agent and all that is stored of it", async () => (await import("./commands/erase.ts")).addErase),
      command("dead", "inputs that exhausted their attempts: look, run again, drop", async () => (await import("./commands/dead.ts")).addDead),
      command("redeliver [options] [id...]", "give past webhooks to their agents again", async () => (await import("./commands/redeliver.ts")).addRedeliver),
      command("release [options] <class> <name>", "let a quarantined agent run again", async () => (await import("./commands/release.ts")).addRelease),
    ],
  ],
  [
    "Saving:",
    [
      command("export [options] [class] [name]", "copy an agent into a file, or follow all changes", async () => (await import("./commands/export.ts")).addExport),
      command("import [options] <file>", "make an agent of a file of agents export", async () => (await import("./commands/import.ts")).addImport),
      command("fork [options] <class> <name> <new name>", "make a second agent of a point in one's history", async () => (await import("./commands/fork.ts")).addFork),
      command("backup [options] <folder>", "copy all agents into a folder, while they run", async () => (await import("./commands/backup.ts")).addBackup),
      command("verify [options] <backup>", "check a backup, and rebuild all agents from it", async () => (await import("./commands/verify.ts")).addVerify),
      command("restore [options] <class-or-folder> [name]", "put an agent back to an earlier point, or make all agents of a backup", async () => (await import("./commands/restore.ts")).addRestore),
    ],
  ],
  [
    "Shell:",
    [
      command("completion <shell>", "print a script that completes commands and options with Tab", async () => (await import("./commands/completion.ts")).addCompletion),
    ],
  ],
]; // prettier-ignore

/** All of them, in the order of the help. */
export const COMMANDS: ReadonlyArray<ListedCommand> = COMMAND_GROUPS.flatMap(
  ([, commands]) => commands,
);
