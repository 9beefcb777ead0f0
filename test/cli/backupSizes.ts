/** Shared by tests of interrupted backups: small sizes, and a terminal that records its output. */
import type { BackupOptions } from "../../services/cli/commands/backup.ts";

export const SIZES: NonNullable<BackupOptions["sizes"]> = {
  rangeEventsMin: 100,
  fileEventsMin: 1,
  shareEvents: 200,
  sharesMax: 2,
};

export function terminalAt(cwd: string) {
  const out: string[] = [];
  const err: string[] = [];
  const terminal = {
    out: (line: string) => void out.push(line),
    err: (line: string) => void err.push(line),
    interactive: false,
    env: {},
    cwd,
  };
  return { terminal, out, err };
}
