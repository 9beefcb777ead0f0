/**
 * Which of our code has run, by V8's block counts (`node:inspector`): inputs that reach new code
 * are kept and mutated further. Read once for each batch, since reading takes milliseconds.
 *
 * `@jazzer.js/core` 4.0.0 is kept and installs without a download, but its binary wants glibc 2.38,
 * which Debian 12 and the node:20 images do not have; and it knows neither sockets nor our
 * checksums.
 */
import { Session } from "node:inspector";
import { fileURLToPath } from "node:url";

const ROOT = new URL("../../", import.meta.url).href;
const OURS = ["core/", "schemas/", "services/"].map((folder) => ROOT + folder);

export class Coverage {
  private readonly session = new Session();
  private readonly seen = new Set<string>();

  constructor() {
    this.session.connect();
    this.session.post("Profiler.enable");
    this.session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
    this.fresh();
  }

  /** Blocks that were seen. */
  get size(): number {
    return this.seen.size;
  }

  /** How many blocks ran since the last time that had never run before. */
  fresh(): number {
    const before = this.seen.size;
    this.session.post("Profiler.takePreciseCoverage", (error, answer) => {
      if (error !== null) throw new Error(`no coverage: ${JSON.stringify(error)}`);
      for (const { url, functions } of answer.result) {
        if (!OURS.some((folder) => url.startsWith(folder))) continue;
        const file = fileURLToPath(url);
        for (const { ranges } of functions)
          for (const { startOffset, endOffset, count } of ranges)
            if (count > 0) this.seen.add(`${file}:${startOffset}-${endOffset}`);
      }
    });
    return this.seen.size - before;
  }

  close(): void {
    this.session.disconnect();
  }
}
