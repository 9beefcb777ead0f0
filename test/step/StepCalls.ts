/** What steps' functions did in one test: which ran, under which keys, and where one waits. */
import type { Step } from "agents";
import type { Latch } from "../system/kit.ts";

export class StepCalls {
  readonly calls: string[] = [];
  readonly keys: string[] = [];
  /** By step: its function waits for the latch. */
  readonly latches: Record<string, Latch> = {};

  /** Runs as the function of the step `name`; resolves to the name and how often it has run. */
  readonly run = async (name: string, { key }: Step): Promise<string> => {
    const { calls, keys, latches } = this;
    calls.push(name);
    keys.push(key);
    const nth = calls.filter((called) => called === name).length;
    await latches[name]?.opened;
    return `${name} ${nth}`;
  };
}
