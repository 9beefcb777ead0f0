/** WebSocket clients in a process of their own (`socketClients.ts`), run as often as asked. */
import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { BenchFailed } from "../Bench.ts";

const PROGRAM = fileURLToPath(new URL("./socketClients.ts", import.meta.url));

export interface OpenSockets {
  readonly port: number;
  /** A group of sockets for each. */
  readonly paths: ReadonlyArray<string>;
  readonly socketsEach: number;
  /** Frames that the server sends to each new socket. */
  readonly readyFrames: number;
}

export interface RunSockets {
  readonly seconds: number;
  /** Text that a group's first socket sends. */
  readonly message: string;
  /** Messages of one group that are not answered; above 1 only for groups of one socket. */
  readonly depth: number;
  readonly groupsAtOnce: number;
  /** A shorter frame is an error. */
  readonly bytesMin: number;
}

export interface LoadRun {
  /** Messages that every socket of their group has the answer to. */
  readonly answered: number;
  readonly frames: number;
  /** Messages. */
  readonly perSecond: number;
  /** From the message until the last socket of the group has its frame. */
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly mostMs: number;
  /** How the first frame begins. */
  readonly sample: string;
}

export type LoadCommand =
  ({ readonly op: "open" } & OpenSockets) | ({ readonly op: "run" } & RunSockets);
export type LoadReply = { readonly result: LoadRun | undefined } | { readonly failure: string };

export class SocketLoad {
  private readonly child: ChildProcess = fork(PROGRAM, {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });

  async open(sockets: OpenSockets): Promise<void> {
    await this.ask({ op: "open", ...sockets });
  }

  async run(how: RunSockets): Promise<LoadRun> {
    return (await this.ask({ op: "run", ...how }))!;
  }

  /** Ends the process, and so its sockets: it holds nothing worth an orderly end. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await ended;
  }

  private ask(command: LoadCommand): Promise<LoadRun | undefined> {
    return new Promise((resolve, reject) => {
      const gone = (): void => reject(new BenchFailed("the clients' process ended"));
      this.child.once("exit", gone);
      this.child.once("message", (reply: LoadReply) => {
        this.child.off("exit", gone);
        if ("failure" in reply) reject(new BenchFailed(`the clients: ${reply.failure}`));
        else resolve(reply.result);
      });
      this.child.send(command);
    });
  }
}
