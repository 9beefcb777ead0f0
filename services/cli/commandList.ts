/**
 * The commands by group, in the order of the help. A command's file is only imported when the
 * command runs, so that the list of commands, and commands that only read, do not load the adapters
 * of others.
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
      command("dev [options] [module]", "run a whole installation locally, and reload the module when it changes", async () => (await import("./roles/dev.ts")).addDev),
      command("gateway [options] [module]", "serve HTTP, WebSockets and webhooks", async () => (await import("./roles/gateway.ts")).addGateway),
      command("host [options] [module]", "run agents", async () => (await import("./roles/host.ts")).addHost),
      command("mail [options] [module]", "receive mail by SMTP", async () => (await import("./roles/mail.ts")).addMail),
      command("retention [options] [module]", "trim and archive old history", async () => (await import("./roles/retention.ts")).addRetention),
      command("provision [options]", "create an installation's streams on a broker, or change their replicas", async () => (await import("./roles/provision.ts")).addProvision),
    ],
  ],
  [
    "Looking:",
    [
      command("list [options] [class]", "list agents, of one class or all", async () => (await import("./commands/list.ts")).addList),
      command("history [options] <class> <name>", "show an agent's journal, turn by turn", async () => (await import("./commands/history.ts")).addHistory),
      command("why [options] <class> <name> <path>", "show which turns wrote a field of the state or a row", async () => (await import("./commands/why.ts")).addWhy),
      command("diff [options] <class> <name>", "compare an agent at two points of its history", async () => (await import("./commands/diff.ts")).addDiff),
      command("deliveries [options]", "show the delivery log: requests to webhook routes and their outcomes", async () => (await import("./commands/deliveries.ts")).addDeliveries),
      command("state [options] <class> <name>", "print an agent's state, now or at any point of its history", async () => (await import("./commands/state.ts")).addState),
      command("top [options] [class]", "show the load of classes and of the busiest agents, live", async () => (await import("./commands/top.ts")).addTop),
      command("rerun [options] <class> <name> [module]", "run an agent's past webhooks on other code, and compare", async () => (await import("./commands/rerun.ts")).addRerun),
      command("sql [options] <class> <name> <query>", "query an agent's database, now or at any point of its history", async () => (await import("./commands/sql.ts")).addSql),
      command("query [options] [sql]", "run one SELECT over all agents", async () => (await import("./commands/query.ts")).addQuery),
      command("schedules [options] <class> <name>", "list an agent's schedules, now or at any point of its history", async () => (await import("./commands/schedules.ts")).addSchedules),
      command("workflows [options] <class> <name>", "show the steps of a workflow instance, or the instances that an agent has started", async () => (await import("./commands/workflows.ts")).addWorkflows),
      command("connections [options] <class> <name>", "list an agent's open WebSocket connections", async () => (await import("./commands/connections.ts")).addConnections),
      command("fibers [options] <class> <name>", "list an agent's fibers, now or at any point of its history", async () => (await import("./commands/fibers.ts")).addFibers),
      command("approvals [options] <class> [name]", "list the approvals that an agent or a class waits for", async () => (await import("./commands/approvals.ts")).addApprovals),
      command("tail [options] [class] [name]", "watch turns as they are committed", async () => (await import("./commands/tail.ts")).addTail),
      command("console [options]", "serve a page for operators: agents, their turns, state and rows", async () => (await import("./roles/console.ts")).addConsole),
    ],
  ],
  [
    "Acting:",
    [
      command("call [options] <class> <name> <method> [json...]", "call a method of an agent", async () => (await import("./commands/call.ts")).addCall),
      command("erase [options] [class] [name]", "remove an agent and everything stored about it", async () => (await import("./commands/erase.ts")).addErase),
      command("dead", "list, redrive or drop inputs that exhausted their attempts", async () => (await import("./commands/dead.ts")).addDead),
      command("redeliver [options] [id...]", "deliver past webhooks again", async () => (await import("./commands/redeliver.ts")).addRedeliver),
      command("release [options] <class> <name>", "let a quarantined agent run again", async () => (await import("./commands/release.ts")).addRelease),
    ],
  ],
  [
    "Saving:",
    [
      command("export [options] [class] [name]", "print an agent's journal, or follow all changes", async () => (await import("./commands/export.ts")).addExport),
      command("import [options] <file>", "create an agent from the output of agents export", async () => (await import("./commands/import.ts")).addImport),
      command("fork [options] <class> <name> <new name>", "copy an agent, as it was at any point of its history", async () => (await import("./commands/fork.ts")).addFork),
      command("backup [options] <folder>", "back up all agents into a folder while they run", async () => (await import("./commands/backup.ts")).addBackup),
      command("verify [options] <backup>", "check a backup by rebuilding all agents from it", async () => (await import("./commands/verify.ts")).addVerify),
      command("restore [options] <class-or-folder> [name]", "put an agent back to an earlier point, or restore a backup", async () => (await import("./commands/restore.ts")).addRestore),
    ],
  ],
  [
    "Shell:",
    [
      command("completion <shell>", "print a script that completes commands and options with Tab", async () => (await import("./commands/completion.ts")).addCompletion),
    ],
  ],
]; // prettier-ignore

/** All commands, in the order of the help. */
export const COMMANDS: ReadonlyArray<ListedCommand> = COMMAND_GROUPS.flatMap(
  ([, commands]) => commands,
);
