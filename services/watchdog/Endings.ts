/**
 * Records why a process ended, for the input that was running, so that a later process can read it:
 * a small file in a folder that the workers of one machine share. The watchdog writes it just
 * before it ends the process. The host that finds the input without attempts left reads it for the
 * dead letter.
 *
 * A host of another machine does not have the file, and a process that was killed from outside
 * wrote none. The dead letter then says only that the last attempt did not end.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LastEnding } from "../../core/input/Unbegun.ts";

/** Attempts of one input are seconds apart. Older endings are not needed. */
const KEPT_MS = 24 * 3600 * 1000;
/** A reason is a sentence and a source line. */
const TEXT_CHARS_MAX = 1_000;

interface EndedInput {
  readonly class: string;
  readonly name: string;
  readonly key?: string;
  /** From 1. */
  readonly attempt: number;
}

type InputAgent = Pick<EndedInput, "class" | "name">;

export class Endings {
  /** Names of the files that were there when this process began. */
  private readonly known = new Set<string>();

  constructor(private readonly folder: string) {
    try {
      for (const name of readdirSync(folder)) this.known.add(name);
    } catch {
      // The folder does not exist yet.
    }
  }

  /**
   * Whether an ending was noted before this process began. A process takes over from one that has
   * ended, so the others do not matter to it.
   */
  get any(): boolean {
    return this.known.size > 0;
  }

  /**
   * Writes the ending at once; does nothing for an input without a key. Never throws, because the
   * process ends in any case.
   */
  note(input: EndedInput, reason: string): void {
    if (input.key === undefined) return;
    try {
      mkdirSync(this.folder, { recursive: true, mode: 0o700 });
      const ending: LastEnding = {
        reason: reason.slice(0, TEXT_CHARS_MAX),
        attempt: input.attempt,
      };
      writeFileSync(this.fileOf(input, input.key), JSON.stringify(ending), { mode: 0o600 });
    } catch {
      // The log line has the reason, too.
    }
  }

  /** Undefined if none was recorded. */
  of(input: InputAgent, key: string): LastEnding | undefined {
    try {
      const text = readFileSync(this.fileOf(input, key), "utf8");
      // A file of an older release holds the reason only.
      return text.startsWith("{")
        ? (JSON.parse(text) as LastEnding)
        : { reason: text.slice(0, TEXT_CHARS_MAX), attempt: 0 };
    } catch {
      return undefined;
    }
  }

  /** Never throws. */
  forget(input: InputAgent, key: string): void {
    try {
      rmSync(this.fileOf(input, key), { force: true });
    } catch {
      // It is removed when it is old.
    }
  }

  /** Removes endings that are no longer needed. Never throws. */
  forgetOld(nowMs: number): void {
    try {
      for (const name of readdirSync(this.folder)) {
        const file = join(this.folder, name);
        if (nowMs - statSync(file).mtimeMs > KEPT_MS) rmSync(file, { force: true });
      }
    } catch {
      // The folder does not exist yet, or another worker removed the file.
    }
  }

  /** Names and keys come from outside: the file's name is a hash of them. */
  private fileOf(input: InputAgent, key: string): string {
    const text = JSON.stringify([input.class, input.name, key]);
    return join(this.folder, createHash("sha256").update(text).digest("hex"));
  }
}
