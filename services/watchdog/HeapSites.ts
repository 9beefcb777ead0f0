/**
 * Which functions of the author's have allocated what fills the heap: the log's answer where no
 * turn is to blame, because memory has grown over many of them (a list or a cache of the module
 * that is never emptied). The watchdog's thread samples the main thread's allocations with V8's
 * heap profiler from `start` on, and asks for what is still in use when the process is to end.
 *
 * An allocation counts for the innermost of the author's functions on its stack, so what a
 * dependency allocates counts for the code that called it.
 */
import { Session, type HeapProfiler } from "node:inspector";
import { codeAt, isAuthors } from "./MainThreadDebugger.ts";

/** Bytes between two samples: some hundred a second on a busy host, which is not measurable. */
const SAMPLED_EVERY = 2 * 1024 * 1024;
const SITES_MAX = 3;
/** Parts of what was sampled that are smaller fill no heap. */
const PART_MIN = 0.1;
/** Bytes. */
const MB = 1024 * 1024;

type Frame = HeapProfiler.SamplingHeapProfileNode["callFrame"];

export class HeapSites {
  private session: Session | undefined;

  /** Idempotent. */
  start(): void {
    if (this.session !== undefined) return;
    this.session = new Session();
    this.session.connectToMainThread();
    this.session.post("HeapProfiler.startSampling", { samplingInterval: SAMPLED_EVERY });
  }

  /**
   * Like `812 MB by keep (src/agents.ts:12:3)`, the largest first. None if sampling was not
   * started, or the main thread does not answer within `ms`.
   */
  async largest(ms: number): Promise<ReadonlyArray<string>> {
    const { session } = this;
    if (session === undefined) return [];
    const late = new Promise<undefined>((resolve) => setTimeout(() => resolve(undefined), ms));
    const sites: string[] = [];
    for (const [frame, bytes] of largestOf(await Promise.race([profileOf(session), late]))) {
      const code = await Promise.race([codeAt(session, frame), late]);
      const name = frame.functionName === "" ? "a function" : frame.functionName;
      if (code !== undefined) sites.push(`${Math.round(bytes / MB)} MB by ${name} (${code.where})`);
    }
    return sites;
  }
}

const profileOf = (session: Session): Promise<HeapProfiler.SamplingHeapProfile | undefined> =>
  new Promise((resolve) =>
    session.post("HeapProfiler.getSamplingProfile", (error, given) =>
      resolve(error === null ? given.profile : undefined),
    ),
  );

function largestOf(
  profile: HeapProfiler.SamplingHeapProfile | undefined,
): ReadonlyArray<readonly [Frame, number]> {
  if (profile === undefined) return [];
  const found = new Map<string, readonly [Frame, number]>();
  let all = 0;
  const add = (node: HeapProfiler.SamplingHeapProfileNode, caller: Frame | undefined): void => {
    const author = isAuthors(node.callFrame.url) ? node.callFrame : caller;
    all += node.selfSize;
    if (author !== undefined) {
      const place = `${author.scriptId}:${author.lineNumber}:${author.columnNumber}`;
      found.set(place, [author, node.selfSize + (found.get(place)?.[1] ?? 0)]);
    }
    for (const child of node.children) add(child, author);
  };
  add(profile.head, undefined);
  return [...found.values()]
    .filter(([, bytes]) => bytes >= all * PART_MIN)
    .toSorted(([, a], [, b]) => b - a)
    .slice(0, SITES_MAX);
}
