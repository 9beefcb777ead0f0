/** All targets, in the order in which `npm run fuzz -- --all` takes them. */
import type { FuzzTarget } from "../Target.ts";
import { decoderTargets } from "./decoders.ts";
import { httpTargets } from "./http.ts";
import { mailTargets } from "./mail.ts";
import { mcpTargets } from "./mcp.ts";
import { systemTarget } from "./system.ts";
import { webhookTargets } from "./webhooks.ts";

export const targets: ReadonlyArray<FuzzTarget> = [
  ...decoderTargets,
  ...webhookTargets,
  ...mailTargets,
  ...httpTargets,
  ...mcpTargets,
  systemTarget,
];
