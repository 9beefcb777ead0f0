/** Loads its argument's module as `agents dev` does, or says why not. Run by `loadApart`. */
import { fillProcessEnv, loadEnv } from "../../services/env/loadEnv.ts";
import { loadModule } from "../../services/module/loadModule.ts";

/** The module may have written there before. */
const BEGIN = "\0";
const module = process.argv[2]!;
try {
  const { env } = loadEnv({ module });
  fillProcessEnv(env);
  await loadModule(module, env);
  process.exit(0);
} catch (error) {
  process.stderr.write(`${BEGIN}${(error as Error).message}\n`);
  process.exit(1);
}
