/**
 * Binds the code of a module to a process. `joinProcess` does so when it starts, and again for each
 * reload.
 */
import * as Effect from "effect/Effect";
import { messageOf } from "../../core/errors/thrown.ts";
import type { StubCalls } from "../../core/namespace/stubTarget.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { AgentClassType } from "../../core/runtime/AgentParts.ts";
import { bindEnv } from "../module/bindEnv.ts";
import { gatewayModule } from "../module/gatewayModule.ts";
import type { LoadedModule } from "../module/LoadedModule.ts";
import { mailModule } from "../module/mailModule.ts";
import { bindPlatform } from "../platform/bindPlatform.ts";
import type { ProcessSettings } from "./ProcessSettings.ts";
import type { mailOfEnv } from "./joinMail.ts";

/** What gateway, host and mail use of a module. */
export function codeOf(
  module: LoadedModule,
  { env: variables, sealed }: Pick<ProcessSettings, "env" | "sealed">,
  stubs: StubCalls,
  mailing: Effect.Success<typeof mailOfEnv>,
  log: LogShape,
) {
  const env = bindEnv(variables, module.agents, () => stubs, mailing, module.wrangler);
  bindPlatform(module, env, (error) =>
    log.error("a waitUntil promise rejected", { error: messageOf(error) }),
  );
  return {
    // The mark on a class shows that it is a subclass of `Agent`: `readModule` has checked it.
    host: {
      agents: module.agents as ReadonlyMap<string, AgentClassType>,
      env,
      version: module.version,
      recorded: sealed,
    },
    gateway: gatewayModule(module, env),
    mail: mailModule(module, env),
  };
}
