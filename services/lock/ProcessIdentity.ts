/**
 * Identifies a process by its pid and start time, because the system reuses pids. `FileLock` and
 * `agents dev` write the identity to files that outlive their process, and check later whether that
 * very process is still alive.
 */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

export interface ProcessIdentity {
  readonly pid: number;
  /** Opaque: only equality is meaningful. Empty where the platform has no cheap way to read it. */
  readonly startedAt: string;
}

/** `ps` answers in milliseconds; this bounds a machine where it hangs. */
const PS_TIMEOUT_MS = 5_000;

/** Undefined if no such process is alive. A zombie is not alive. */
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
    return undefined; // it ended between the two calls
  }
}

/** As `identityOf`, of one that is alive. `startedAt` is empty where the start can't be read. */
export const identityOfLiving = (pid: number): ProcessIdentity =>
  identityOf(pid) ?? { pid, startedAt: "" };

/** True if that very process is still alive. Files of older releases have the pid alone. */
export function stillLives({
  pid,
  startedAt,
}: Pick<ProcessIdentity, "pid"> & Partial<ProcessIdentity>): boolean {
  return startedAt === undefined ? isAlive(pid) : identityOf(pid)?.startedAt === startedAt;
}

/** Whether there is a process with this pid, whichever it is. */
function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: the process exists and belongs to another user.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

/** Start times count from the boot, so the identity has the boot's id: files outlive a boot. */
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
    return undefined; // it ended between the two calls
  }
}
