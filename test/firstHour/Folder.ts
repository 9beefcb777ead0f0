/** A new user's folder: runs commands and servers without this repository; keeps warnings. */
import { spawn, type ChildProcess } from "node:child_process";
import { delimiter } from "node:path";
import { pollUntil } from "../kit/poll.ts";

/** A command that takes longer has hung; an install without a cache takes a minute. */
const COMMAND_TIMEOUT_MS = 300_000;
const SERVING_TIMEOUT_MS = 60_000;
/**
 * Releases that are younger are not installed: a registry may have one and not yet all of what it
 * needs, and `npm ci` then refuses the lock that `npm install` wrote.
 */
const SETTLED_MS = 7 * 24 * 3_600_000;
const WARNING = /\bwarn(?:ing)?\b|deprecat|EBADENGINE/i;
/** A sign of a busy machine, not of a fault in the package. */
const BUSY = "a turn held the thread of its process";

export interface FolderOptions {
  readonly path: string;
  /** The folder of another `node`, `npm` and `npx`. */
  readonly nodeFolder?: string | undefined;
  /** Receives each warning, with the command that printed it. */
  readonly warnings: string[];
}

export class Folder {
  readonly path: string;
  private readonly options: FolderOptions;
  private readonly running = new Set<Server>();

  constructor(options: FolderOptions) {
    this.path = options.path;
    this.options = options;
  }

  /** Another folder with the same Node, which reports to the same list. */
  at(path: string): Folder {
    return new Folder({ ...this.options, path });
  }

  /** Resolves to its output. Rejects if it fails, with the output too. */
  async run(command: string, ...args: ReadonlyArray<string>): Promise<string> {
    const child = this.spawn(command, args);
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk: Buffer) => (text += chunk.toString()));
    const timer = setTimeout(() => child.kill("SIGKILL"), COMMAND_TIMEOUT_MS);
    const code = await new Promise((done) => child.once("close", done));
    clearTimeout(timer);
    this.look(text, [command, ...args].join(" "));
    if (code !== 0)
      throw new Error(`${command} ${args.join(" ")} ended with ${String(code)}:\n${text}`);
    return text;
  }

  /** Resolves when it has printed `until`. */
  async serve(until: RegExp, command: string, ...args: ReadonlyArray<string>): Promise<Server> {
    const name = [command, ...args].join(" ");
    const server = new Server(name, this.spawn(command, args));
    this.running.add(server);
    await server.printed(until);
    return server;
  }

  /** Stops everything that still runs, in order, and checks its output. */
  async stop(): Promise<void> {
    for (const server of this.running) {
      await server.stop();
      if (!server.mayWarn) this.look(server.text, server.name);
    }
    this.running.clear();
  }

  private look(text: string, name: string): void {
    for (const line of text.split("\n"))
      if (WARNING.test(line) && !line.includes(BUSY))
        this.options.warnings.push(`${name}: ${line.trim()}`);
  }

  private spawn(command: string, args: ReadonlyArray<string>): ChildProcess {
    const { nodeFolder } = this.options;
    const { PATH = "", HOME, NATS_SERVER, NODE_EXTRA_CA_CERTS } = process.env;
    return spawn(command, args, {
      cwd: this.path,
      env: {
        PATH: nodeFolder === undefined ? PATH : nodeFolder + delimiter + PATH,
        ...(HOME === undefined ? {} : { HOME }),
        ...(NATS_SERVER === undefined ? {} : { NATS_SERVER }),
        // A registry behind a proxy: Debian's Node reads the system's certificates, others do not.
        ...(NODE_EXTRA_CA_CERTS === undefined ? {} : { NODE_EXTRA_CA_CERTS }),
        npm_config_update_notifier: "false",
        npm_config_before: new Date(Date.now() - SETTLED_MS).toISOString(),
      },
      stdio: ["ignore", "pipe", "pipe"],
      detached: true, // a group of its own: npm does not pass every signal on
    });
  }
}

export class Server {
  readonly name: string;
  text = "";
  /** True from the moment on at which something was done to it. */
  mayWarn = false;
  private readonly child: ChildProcess;
  private ended = false;
  private readonly end: Promise<void>;

  constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.child = child;
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk: Buffer) => (this.text += chunk.toString()));
    this.end = new Promise((done) =>
      child.once("close", () => {
        this.ended = true;
        done();
      }),
    );
  }

  /** The first group of `pattern`, once it is printed at or after `from`. */
  async printed(pattern: RegExp, from = 0): Promise<string> {
    const find = (): RegExpExecArray | null => pattern.exec(this.text.slice(from));
    await pollUntil(
      `${this.name} prints ${String(pattern)}`,
      () => find() !== null || this.ended || { done: false, saw: this.text },
      { timeoutMs: SERVING_TIMEOUT_MS, intervalMs: 20 },
    );
    const found = find();
    if (found === null) throw new Error(`${this.name} ended:\n${this.text}`);
    return found[1] ?? found[0];
  }

  async kill(): Promise<void> {
    this.mayWarn = true;
    this.signal("SIGKILL");
    await this.end;
  }

  async stop(): Promise<void> {
    this.signal("SIGTERM");
    const timer = setTimeout(() => this.signal("SIGKILL"), 20_000);
    await this.end;
    clearTimeout(timer);
  }

  private signal(name: NodeJS.Signals): void {
    if (this.ended || this.child.pid === undefined) return;
    try {
      process.kill(-this.child.pid, name);
    } catch {
      // It ended in this moment.
    }
  }
}
