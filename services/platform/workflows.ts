/**
 * What `cloudflare:workflows`, a module of the reference's platform, is here: `moduleHooks`
 * resolves the specifier to this file.
 */
export { NonRetryableError } from "../../core/workflow/errors.ts";
