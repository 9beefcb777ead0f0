/**
 * A bench over deployments (one process, two). For each requested one, starts our side and what it
 * is compared with, and runs every load on all sides in turn, forwards and backwards. Stops all at
 * the end.
 */
import type { BenchOptions } from "../Bench.ts";

interface Stoppable {
  readonly stop: () => Promise<void>;
}

export interface FormsPlan<Form extends string, Side extends Stoppable, Load, Run> {
  readonly forms: ReadonlyArray<Form>;
  readonly startFloor: (form: Form) => Promise<Side>;
  readonly startOurs: (form: Form) => Promise<{ readonly side: Side; readonly server: string }>;
  readonly loads: ReadonlyArray<Load>;
  readonly warmUpSeconds: number;
  readonly run: (side: Side, load: Load, seconds: number) => Promise<Run>;
  /** One measurement, for people. */
  readonly tell: (run: Run) => string;
}

/** `server`: the version of nats-server. */
export async function measureForms<Form extends string, Side extends Stoppable, Load, Run>(
  { forms, rounds, seconds, say }: BenchOptions,
  plan: FormsPlan<Form, Side, Load, Run>,
): Promise<{
  readonly sides: ReadonlyArray<Side>;
  readonly found: ReadonlyArray<Run>;
  readonly server: string;
}> {
  const sides: Side[] = [];
  const found: Run[] = [];
  let server = "";
  try {
    for (const form of plan.forms) {
      if (forms.length > 0 && !forms.includes(form)) continue;
      say(`starting: ${form}`);
      sides.push(await plan.startFloor(form));
      const ours = await plan.startOurs(form);
      sides.push(ours.side);
      server = ours.server;
    }
    for (const load of plan.loads) {
      for (const side of sides) await plan.run(side, load, plan.warmUpSeconds);
      for (let round = 0; round < rounds; round += 1)
        for (const side of round % 2 === 0 ? sides : sides.toReversed()) {
          const run = await plan.run(side, load, seconds);
          say(`  ${plan.tell(run)}`);
          found.push(run);
        }
    }
  } finally {
    for (const side of sides) await side.stop();
  }
  return { sides, found, server };
}
