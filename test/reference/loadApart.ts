/** Loads one server in its own process: what its loading does does not reach the next one. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { ExampleServer } from "./exampleServers.ts";

export interface Loading {
  readonly name: string;
  readonly loads: boolean;
  /** The first error, without paths of the machine; absent where it loads. */
  readonly reason?: string;
  /** Packages that are not installed in the checkout. */
  readonly packages: ReadonlyArray<string>;
}

/** For an import that never ends; the slowest that ends takes a few seconds. */
const TIMEOUT_MS = 120_000;
const LOADER = fileURLToPath(new URL("./loadOne.ts", import.meta.url));
const PROJECT = fileURLToPath(new URL("../../", import.meta.url));

/** `root` is the checkout's folder. */
export async function loadApart({ name, module }: ExampleServer, root: string): Promise<Loading> {
  const error = await new Promise<string | undefined>((done) => {
    execFile(
      process.execPath,
      ["--conditions=agents-source", "--import", "tsx", LOADER, module],
      { cwd: PROJECT, timeout: TIMEOUT_MS },
      (failed, _out, told) => done(failed === null ? undefined : told || failed.message),
    );
  });
  if (error === undefined) return { name, loads: true, packages: [] };
  const reason = error.slice(error.lastIndexOf("\0") + 1).trim();
  const missing = /Cannot find package '((?:@[^/']+\/)?[^/']+)/.exec(reason)?.[1];
  const shown = reason.replaceAll(`${root}/`, "").replaceAll(PROJECT, "");
  return { name, loads: false, reason: shown, packages: missing === undefined ? [] : [missing] };
}
