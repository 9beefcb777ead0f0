/**
 * What `cloudflare:workers`, the module of the reference's platform, is here: `moduleHooks`
 * resolves the specifier to this file. `env` and `exports` are one object each for the life of the
 * process, which `bindPlatform` fills, so that an import by name sees what a later load binds.
 *
 * What is not here is not exported: an import of it fails at load, and `missingImports` says what
 * to use instead.
 */
export { env, exports } from "./bindPlatform.ts";
export { DurableObject } from "../../core/durableObject/DurableObject.ts";
export { WorkflowEntrypoint } from "../../core/workflow/WorkflowEntrypoint.ts";
export { tracing } from "../otel/workersTracing.ts";
export { RpcTarget } from "../../core/rpcTarget/RpcTarget.ts";
export { waitUntil } from "./waitUntil.ts";
export { WorkerEntrypoint } from "./WorkerEntrypoint.ts";
