/** An installation of `noteModule` with its console as a separate process. */
import { fileURLToPath } from "node:url";
import { Installation } from "../kit/Installation.ts";
import { serveConsole, statusWith, type Served } from "./serveConsole.ts";

const MODULE = fileURLToPath(new URL("./noteModule.ts", import.meta.url));
export const TOKEN = "a token for these tests";
export const bearer = { authorization: `Bearer ${TOKEN}` };
/** The API of the agent that has turns, rows and a schedule. */
export const DESK = `/api/agents/note-agent/${encodeURIComponent("on/the desk")}`;

export interface Turn {
  readonly seq: number;
  readonly state?: { readonly text: string };
}

export class NoteConsole {
  readonly installation: Installation;
  /** Calls a method of an agent. */
  readonly call: ReturnType<Installation["caller"]>;
  private readonly served: Served;

  private constructor(installation: Installation, served: Served) {
    this.installation = installation;
    this.call = installation.caller("NoteAgent");
    this.served = served;
  }

  static async start(): Promise<NoteConsole> {
    const installation = await Installation.start({ shards: 4, module: MODULE, gateway: false });
    try {
      await (await installation.startHost("host")).ready();
      const args = ["--data", installation.pathOf("host"), "--rerun", "test/console/noteModule.ts"];
      const env = { AGENTS_CONSOLE_TOKEN: TOKEN };
      const served = await serveConsole(installation.nats.url, args, env);
      return new NoteConsole(installation, served);
    } catch (error) {
      await installation.stop();
      throw error;
    }
  }

  /** Makes the agents `on/the desk`, with four turns and a schedule, and `in a drawer`. */
  async write(): Promise<void> {
    await this.call("on/the desk", "write", "first", "ann");
    await this.call("on/the desk", "write", "second", "ann");
    await this.call("on/the desk", "write", "third", "bob");
    await this.call("on/the desk", "plan");
    await this.call("in a drawer", "write", "empty", "nobody");
  }

  get url(): string {
    return this.served.url;
  }

  /** Another console of the installation. */
  serve(args: ReadonlyArray<string>, env: Record<string, string>): Promise<Served> {
    return serveConsole(this.installation.nats.url, args, env);
  }

  /** With the token. */
  async ask(path: string, init: RequestInit = {}) {
    const response = await fetch(this.url + path, {
      redirect: "manual",
      ...init,
      headers: { ...bearer, ...(init.headers as Record<string, string>) },
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  }

  async get<A>(path: string): Promise<A> {
    return JSON.parse((await this.ask(path)).text) as A;
  }

  /** As `statusWith`, with the token. */
  statusOf(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<number | undefined> {
    return statusWith(this.url + path, method, { ...bearer, ...headers });
  }

  async stop(): Promise<void> {
    this.served.process.kill();
    await this.installation.stop();
  }
}
