/**
 * Names a process beyond its pid, which the system gives again to others: by pid and start time.
 * `DataFolderLock` writes it into files that outlive us, and asks later whether that very process
 * still lives.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque: only equality means anything. Empty where the platform does not tell cheaply. */
  readonly startedAt: string;
}

/** `ps` answers in milliseconds; a machine where it hangs has other troubles. */
const PS_TIMEOUT_MS = 5_000;

/** Undefined if no such process lives now (one that has ended and awaits its parent does not). */
export function identityOf(pid: number): ProcessIdentity | undefined {
  if (!isAlive(pid)) return undefined;
  if (process.platform === "linux") return linuxIdentity(pid);
  if (process.platform === "win32") return { pid, startedAt: "" };
  try {
    const args = ["-o", "lstart=", "-p", String(pid)];
    const env = { ...process.env, LC_ALL: "C", TZ: "UTC" };
    const started = execFileSync("ps", args, { encoding: "utf8", timeout: PS_TIMEOUT_MS, env });
    return { pid, startedAt: started.trim() };
  } catch {
    return undefined; // it ended between the two questions
  }
}

/** True if that very process still lives. */
export function stillLives(identity: ProcessIdentity): boolean {
  return identityOf(identity.pid)?.startedAt === identity.startedAt;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: somebody else's process, and so it lives.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Start times count from the boot, so the boot is part of it: the file may be from before. */
function linuxIdentity(pid: number): ProcessIdentity | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The second field is the name in parentheses, which may itself hold spaces and parentheses.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state] = fields;
    const ticks = fields[19]; // field 22 of proc(5), counted from the third
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return state === "Z" || state === "X" ? undefined : { pid, startedAt: `${boot}/${ticks}` };
  } catch {
    return undefined; // it ended between the two questions
  }
}
