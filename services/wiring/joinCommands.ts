/**
 * Joins the command line with the adapters: what `main.ts` passes to the commands. Adapters are
 * imported when a command needs them, so that `--help` is quick.
 */
import { machineTime } from "../node/MachineTime.ts";
import { processLog } from "../node/ProcessLog.ts";
import type { WorkerLink } from "../workers/workerLink.ts";
import type { Begun, Joins, OpenBroker } from "./Joins.ts";
import type { BrokerSettings } from "./ProcessSettings.ts";

export interface CommandJoins extends Joins {
  /** Begins to import what a serving process needs. */
  readonly preload: () => void;
}

/** `link`: of a worker. */
export function commandJoins({
  link,
  startWorker,
}: Pick<Joins, "startWorker"> & { readonly link: WorkerLink | undefined }): CommandJoins {
  const openBroker: Joins["openBroker"] = async (settings, signal) =>
    (await import("./joinBroker.ts")).openBroker(settings, signal);
  const isOwn = (settings: BrokerSettings): boolean =>
    link === undefined || settings.natsUrl !== undefined;
  const brokerOf = async (settings: BrokerSettings): Promise<OpenBroker> =>
    isOwn(settings)
      ? openBroker(settings)
      : { ...(await link!.broker), stop: async () => undefined };
  return {
    time: machineTime,
    log: processLog,
    openReader: async (target, options) =>
      (await import("./joinReader.ts")).openReader(target, options),
    serveConsole: async (source, settings) =>
      (await import("./joinConsole.ts")).serveConsole(source, settings),
    provision: async (target, settings) =>
      (await import("./joinReader.ts")).provisionTarget(target, settings),
    openDatabases: async (kept) =>
      (await import("../sqlite/sqliteDatabases.ts")).openSqliteDatabases(
        kept ?? { folder: undefined },
      ),
    runSelf: async (...asked) => (await import("../node/runSelf.ts")).runSelf(...asked),
    rerunOn: async (code, broker) => (await import("./joinRerun.ts")).rerunOn(code, broker),
    openBroker,
    openLeases: async (settings) => (await import("./joinLeases.ts")).openLeases(settings),
    begin: async (settings): Promise<Begun> => {
      const broker = brokerOf(settings);
      // The awaiting code receives the rejection.
      broker.catch(() => undefined);
      if (settings.sealed !== undefined)
        (await import("../node/sealProcess.ts")).sealProcess(broker.then(({ url }) => url));
      const { startProcess } = await import("./joinProcess.ts");
      return {
        start: (process, signal) => startProcess(process, broker, signal),
        abandon: async () => {
          // The control process stops its broker. A worker that waited to hear of it would end
          // before, because nothing keeps it alive, and not say what its module failed with.
          if (!isOwn(settings)) return;
          await broker.then(
            (opened) => opened.stop(),
            () => undefined,
          );
        },
      };
    },
    startWorker,
    link,
    preload: () => {
      // The next import receives the failure.
      import("./joinProcess.ts").catch(() => undefined);
    },
  };
}

/**
 * The text for people: the message of an expected failure, of a file that can't be used, and of
 * what the machine is short of; the stack of a defect.
 */
export function explain(error: unknown): string {
  // By their fields: the ports are not imported for a message.
  if (error instanceof Error && "_tag" in error) {
    if (error._tag !== "BrokerUnavailable") return error.message;
    if ("isMissing" in error) return `At the broker, ${error.message}`;
    return "isRefusal" in error
      ? `The broker refuses it: ${error.message}. Is it the login for this command (deploy/nats/permissions.conf)?`
      : `The broker can't be reached: ${error.message}`;
  }
  if (!(error instanceof Error)) return String(error);
  const { code = "", path, syscall } = error as NodeJS.ErrnoException;
  const isNoParent = code === "ENOENT" && syscall === "mkdir";
  const ofPath = isNoParent ? READ_ONLY_REMEDY : PATH_REMEDY;
  const remedy = REMEDIES[code] ?? (path === undefined ? undefined : ofPath);
  return remedy === undefined ? (error.stack ?? String(error)) : `${error.message}. ${remedy}`;
}

/** For a file or folder that can't be used: its path is in the message. */
const PATH_REMEDY = "Use another path, or change what is there";

/**
 * For a folder that is created with all above it: Node reports a file system that can't be written
 * as a missing folder.
 */
const READ_ONLY_REMEDY =
  "The file system may be read-only: use another path, or mount it so that it can be written";

/** For what the machine is short of: a stack would only say who asked for it last. */
const REMEDIES: Readonly<Record<string, string>> = {
  EMFILE: "Allow more open files, such as with ulimit -n 1024, and run the command again",
  ENFILE: "The machine has too many open files: close some, and run the command again",
  ENOSPC: "The disk is full: make room, and run the command again",
};
