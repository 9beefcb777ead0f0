/** Temporary folders of tests: removed by their makers, or when the process or the run ends. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempFolder {
  readonly path: string;
  readonly remove: () => void;
}

/** The variable that names the folder of a run's temporary folders, set by `globalSetup`. */
export const PARENT_FOLDER = "AGENTS_TEST_FOLDER";

const made = new Set<string>();

process.once("exit", () => {
  for (const path of made) rmSync(path, { recursive: true, force: true });
});

/** A new empty folder; `label` shows in its name. */
export function tempFolder(label = "test"): TempFolder {
  const path = mkdtempSync(join(process.env[PARENT_FOLDER] ?? tmpdir(), `agents-${label}-`));
  made.add(path);
  return {
    path,
    remove: () => {
      made.delete(path);
      // Retries: a process that has just been killed may still be writing its last file.
      rmSync(path, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
    },
  };
}
