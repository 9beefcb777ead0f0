/** Load by wrk, with signed deliveries to 1,000 agents. Any answer other than 2xx fails the run. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { BenchFailed } from "../Bench.ts";
import type { FloorFiles } from "./findFloor.ts";
import type { Subject } from "./Subject.ts";

/** As `webhooks.lua` spreads them. */
export const AGENTS = 1000;
/** Deliveries signed for each second of a run: more than anything here can send. */
const SIGNED_PER_SECOND = 40_000;

/** A slow answer is a result; the default of 2 s would make an error of it. */
const TIMEOUT = "30s";

const run = promisify(execFile);

export interface WrkRun {
  /** 2xx answers that wrk saw. */
  readonly answered: number;
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly connections: number;
}

export interface WrkOptions {
  readonly files: FloorFiles;
  /** For the signed deliveries. */
  readonly folder: string;
  /** New for each run: deliveries of two runs are never equal. */
  readonly tag: string;
  readonly seconds: number;
  readonly connections: number;
  /** Called when all is signed, right before the load. */
  readonly onBegin?: () => void;
}

export async function runWrk(subject: Subject, options: WrkOptions): Promise<WrkRun> {
  const { files, folder, tag, seconds, connections } = options;
  const signed = join(folder, `signed-${tag}`);
  const count = Math.ceil((seconds * SIGNED_PER_SECOND) / AGENTS) * AGENTS;
  await run(process.execPath, [files.presign, signed, String(count), tag]);
  const args = [
    "-t1",
    `-c${connections}`,
    `-d${seconds}s`,
    "-s",
    files.lua,
    "--latency",
    "--timeout",
    TIMEOUT,
    subject.url,
  ];
  const env = { ...process.env, SIGNED: signed, TAG: tag, ...subject.target };
  options.onBegin?.();
  const { stdout } = await run("wrk", args, { env }).catch((error: unknown) => {
    if ((error as { code?: unknown }).code === "ENOENT")
      throw new BenchFailed('wrk is not installed (Debian and Ubuntu: "apt install wrk").');
    throw error;
  });
  return readReport(subject.name, stdout, connections);
}

function readReport(name: string, report: string, connections: number): WrkRun {
  const bad = /Non-2xx or 3xx responses: (\d+)/.exec(report)?.[1];
  const errors = /Socket errors: (.*)/.exec(report)?.[1];
  if (bad !== undefined || errors !== undefined)
    throw new BenchFailed(
      `${name}: ${bad === undefined ? `socket errors (${errors})` : `${bad} answers were not 2xx`}\n${report}`,
    );
  const field = (pattern: RegExp): string => {
    const found = pattern.exec(report)?.[1];
    if (found === undefined) throw new BenchFailed(`wrk's report can't be read:\n${report}`);
    return found;
  };
  return {
    answered: Number(field(/(\d+) requests in/)),
    perSecond: Number(field(/Requests\/sec:\s+([\d.]+)/)),
    p50Ms: milliseconds(field(/\s50%\s+(\S+)/)),
    p99Ms: milliseconds(field(/\s99%\s+(\S+)/)),
    connections,
  };
}

const UNITS_MS: Readonly<Record<string, number>> = { us: 1e-3, ms: 1, s: 1e3, m: 60e3 };

function milliseconds(text: string): number {
  const [, value, unit] = /^([\d.]+)(us|ms|s|m)$/.exec(text) ?? [];
  const factor = UNITS_MS[unit ?? ""];
  if (factor === undefined) throw new BenchFailed(`wrk's report has a time of "${text}"`);
  return Number(value) * factor;
}
