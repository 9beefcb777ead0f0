/** How an agent of the fault tests stops its whole process in the middle of its turn. */
import { execFileSync } from "node:child_process";
import { existsSync, renameSync, writeFileSync } from "node:fs";

/** Freezes the process if the test made its file (`Installation.freezeFile`). True once thawed. */
export function freezeIfAsked(agent: string): boolean {
  const file = process.env["FREEZE_FILE"];
  if (file === undefined || !existsSync(file)) return false;
  writeFileSync(`${file}.agent`, agent);
  renameSync(file, `${file}.taken`);
  // From outside: the agent would be named for `process.kill()`, and run alone from then on.
  execFileSync("kill", ["-STOP", String(process.pid)]);
  return true;
}
