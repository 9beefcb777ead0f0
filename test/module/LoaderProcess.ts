/**
 * A process of its own that loads modules on request: vitest replaces `import()` in what it runs,
 * so the real loader can only be seen from outside. `source` runs the TypeScript sources as `npm
 * run bench` does, `dist` the built package as users have it.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { createInterface, type Interface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** What one load gave. `value` is what the module's `report` export returned, if it has one. */
export interface LoadReport {
  readonly agents?: ReadonlyArray<string>;
  readonly webhooks?: ReadonlyArray<string>;
  readonly handlers?: ReadonlyArray<string>;
  readonly files: ReadonlyArray<string>;
  readonly value?: unknown;
  /** What is printed about its configuration file. */
  readonly notes?: ReadonlyArray<string>;
  readonly error?: { readonly name: string; readonly message: string };
}

const program = (loader: string): string => `
  import { createInterface } from "node:readline";
  import { loadModule } from ${JSON.stringify(loader)};
  for await (const path of createInterface({ input: process.stdin })) {
    let report;
    try {
      const loaded = await loadModule(path, { SEEDED: "seed" });
      const first = loaded.agents.values().next().value;
      report = {
        agents: [...loaded.agents.keys()],
        webhooks: loaded.webhooks.map((route) => route.path),
        handlers: ["fetch", "email"].filter((name) => typeof loaded[name] === "function"),
        files: loaded.files,
        value: await first.report?.(),
        notes: loaded.wrangler?.notes,
      };
    } catch (error) {
      report = { error: { name: error._tag ?? error.name, message: error.message }, files: error.files ?? [] };
    }
    console.log(JSON.stringify(report));
  }
`;

export class LoaderProcess {
  private readonly child: ChildProcess;
  private readonly lines: Interface;
  private readonly waiting: Array<(line: string) => void> = [];
  private stderr = "";

  constructor(mode: "source" | "dist") {
    const file =
      mode === "source" ? "services/module/loadModule.ts" : "dist/services/module/loadModule.js";
    const flags = mode === "source" ? ["--conditions=agents-source", "--import", "tsx"] : [];
    const code = program(pathToFileURL(ROOT + file).href);
    this.child = spawn(process.execPath, [...flags, "--input-type=module", "-e", code], {
      cwd: ROOT,
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.child.stderr!.on("data", (chunk: Buffer) => (this.stderr += chunk.toString()));
    this.lines = createInterface({ input: this.child.stdout! });
    this.lines.on("line", (line) => this.waiting.shift()?.(line));
  }

  async load(path: string): Promise<LoadReport> {
    const line = await new Promise<string>((done, fail) => {
      const ended = (): void => fail(new Error(`the loader process ended: ${this.stderr}`));
      this.child.once("exit", ended);
      this.waiting.push((text) => {
        this.child.off("exit", ended);
        done(text);
      });
      this.child.stdin!.write(path + "\n");
    });
    try {
      return JSON.parse(line) as LoadReport;
    } catch {
      throw new Error(`not a report: ${line}\n${this.stderr}`);
    }
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null) return;
    const ended = new Promise((done) => this.child.once("exit", done));
    this.child.stdin!.end();
    await ended;
  }
}
