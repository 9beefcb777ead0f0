/**
 * Runs inputs on a target: its seeds, kept ones, then as many mutations as a time or a number
 * allows. An input that reaches new code joins those that are mutated. Ends at the first finding.
 * `runTarget` runs it for long in a process of its own, `fuzz.test.ts` briefly in the suite.
 */
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Random } from "../sim/rig/Random.ts";
import type { Coverage } from "./Coverage.ts";
import { mutate } from "./mutate.ts";
import type { FuzzTarget, OpenTarget } from "./Target.ts";

/** One input may take so long on a busy machine; an answer over a socket included. */
export const INPUT_MS_MAX = 10_000;
/** Between two looks at the coverage. */
const BATCH_MS = 100;
/** V8's heap, buffers, WebAssembly and the binary: a target at rest has some 150 MiB. */
const MEMORY_BYTES_MAX = 1024 * 1024 * 1024;
/** Kept in memory; the oldest that were found go. */
const CORPUS_MAX = 5_000;

export interface FuzzOptions {
  readonly seed: number;
  readonly until: (executions: number) => boolean;
  readonly coverage?: Coverage;
  /** Told of each input before it runs. */
  readonly before?: (input: Uint8Array) => void;
}

export interface FuzzResult {
  readonly executions: number;
  readonly corpus: number;
  readonly slowestMs: number;
  readonly finding?: { readonly input: Uint8Array; readonly error: string };
}

const KEPT = fileURLToPath(new URL("./kept", import.meta.url));
const keptFolder = (target: string): string => join(KEPT, target);
export const nameOf = (input: Uint8Array): string =>
  createHash("sha256").update(input).digest("hex").slice(0, 12);
export const keptPath = (target: string, input: Uint8Array): string =>
  join(keptFolder(target), `${nameOf(input)}.bin`);

/** Inputs that once found a bug. */
export function keptInputs(target: string): Uint8Array[] {
  const folder = keptFolder(target);
  if (!existsSync(folder)) return [];
  return readdirSync(folder).map((name) => readFileSync(join(folder, name)));
}

export async function fuzzTarget(target: FuzzTarget, options: FuzzOptions): Promise<FuzzResult> {
  const open = await target.open();
  try {
    return await loop(target, open, options);
  } finally {
    await open.close?.();
  }
}

async function loop(
  { name, seeds, words = [] }: FuzzTarget,
  { run }: OpenTarget,
  { seed, until, coverage, before }: FuzzOptions,
): Promise<FuzzResult> {
  const random = new Random(seed, name);
  const fixed = [...seeds, ...keptInputs(name)];
  const corpus = [...fixed];
  let executions = 0;
  let slowestMs = 0;
  const tried = async (input: Uint8Array): Promise<string | undefined> => {
    before?.(input);
    executions++;
    const startMs = performance.now();
    try {
      const running = run(input);
      if (running !== undefined) await inTime(running);
    } catch (error) {
      return error instanceof Error ? (error.stack ?? error.message) : String(error);
    }
    const tookMs = performance.now() - startMs;
    slowestMs = Math.max(slowestMs, tookMs);
    return tookMs > INPUT_MS_MAX ? `took ${Math.round(tookMs)} ms` : undefined;
  };
  const result = () => ({ executions, corpus: corpus.length, slowestMs });
  for (const input of fixed) {
    const error = await tried(input);
    if (error !== undefined) return { ...result(), finding: { input, error } };
  }
  coverage?.fresh();
  while (!until(executions)) {
    const batch: Uint8Array[] = [];
    const endMs = performance.now() + BATCH_MS;
    while (performance.now() < endMs && !until(executions)) {
      const input = mutate(corpus, words, random);
      batch.push(input);
      const error = await tried(input);
      if (error !== undefined) return { ...result(), finding: { input, error } };
    }
    const memory = process.memoryUsage();
    const bytes = memory.heapUsed + memory.external;
    if (bytes > MEMORY_BYTES_MAX)
      return { ...result(), finding: { input: batch.at(-1)!, error: `memory grew to ${bytes} bytes` } }; // prettier-ignore
    if (coverage === undefined || coverage.fresh() === 0) continue;
    // Which one it was is not told: all of a short batch, some of a long one.
    const share = Math.min(1, 8 / batch.length);
    corpus.push(...batch.filter(() => random.chance(share)));
    if (corpus.length > CORPUS_MAX) corpus.splice(fixed.length, corpus.length - CORPUS_MAX);
  }
  return result();
}

async function inTime(running: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no end within ${INPUT_MS_MAX} ms`)), INPUT_MS_MAX);
  });
  try {
    await Promise.race([running, late]);
  } finally {
    clearTimeout(timer);
  }
}
