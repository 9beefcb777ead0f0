/** Checks the undo that was passed to `step.do`. Pure; errors name the step. */
import { checkOptions } from "../errors/checkOptions.ts";
import { resolveConfig, type StepConfig } from "./stepConfig.ts";
import type { ResolvedUndo } from "./Undos.ts";
import type { StepUndoOptions } from "./WorkflowStep.ts";

const OPTIONS: ReadonlySet<string> = new Set<keyof StepUndoOptions>([
  "undo", "rollback", "rollbackConfig",
]); // prettier-ignore

/** `given`: the step's config. Undefined: the step is not undone. Throws `TypeError`. */
export function resolveUndo(
  step: string,
  given: StepConfig,
  options: StepUndoOptions | undefined,
): ResolvedUndo | undefined {
  for (const name of ["undo", "rollback"])
    if (name in given)
      throw new TypeError(
        `step "${step}": ${name} comes after the function: step.do(name, config, f, { ${name} })`,
      );
  if (options === undefined) return undefined;
  checkOptions(`step "${step}": what follows its function`, options, OPTIONS);
  const { undo, rollback, rollbackConfig } = options;
  if (undo !== undefined && rollback !== undefined)
    throw new TypeError(
      `step "${step}": undo and rollback are two ways to say one thing: give one`,
    );
  for (const [name, f] of Object.entries({ undo, rollback }))
    if (f !== undefined && typeof f !== "function")
      throw new TypeError(`step "${step}": ${name} must be a function`);
  const own = rollbackConfig && resolveConfig(step, rollbackConfig);
  if (undo !== undefined)
    return {
      config: own ?? resolveConfig(step, given),
      isForAll: false,
      run: ({ output }, ctx) => undo(output, ctx),
    };
  if (rollback === undefined) return undefined;
  return {
    config: own ?? resolveConfig(step),
    isForAll: true,
    run: (of, { key }) => rollback({ ...of, key }),
  };
}
