/** Everything that happened in a run, in order. Runs of one seed must share its hash. */
import { createHash } from "node:crypto";

export class Trace {
  readonly lines: string[] = [];
  private readonly hash = createHash("sha256");
  /** Not hashed yet. */
  private waiting = "";
  private readonly nowMs: () => number;
  private readonly keep: boolean;
  count = 0;

  constructor(nowMs: () => number, keep: boolean) {
    this.nowMs = nowMs;
    this.keep = keep;
  }

  add(what: string): void {
    const line = `${this.nowMs()} ${what}`;
    this.count++;
    this.waiting += `${line}\n`;
    if (this.waiting.length > WAITING_MAX) this.flush();
    if (this.keep) this.lines.push(line);
  }

  /** The digest of all so far; the trace goes on. */
  digest(): string {
    this.flush();
    return this.hash.copy().digest("hex").slice(0, DIGEST_DIGITS);
  }

  private flush(): void {
    this.hash.update(this.waiting);
    this.waiting = "";
  }
}

/** Characters: a hash that is called for each line costs more than its work. */
const WAITING_MAX = 64 * 1024;
/** 64 bits tell any two traces apart that anyone will ever compare. */
const DIGEST_DIGITS = 16;
