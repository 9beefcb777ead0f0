/** The examples that are driven, by their path in the checkout. */
import type { Drive } from "./Drive.ts";
import { AGENT_DRIVES } from "./driveAgents.ts";
import { MCP_DRIVES } from "./driveMcpServers.ts";
import { MODEL_DRIVES } from "./driveModels.ts";
import { PLAYGROUND_DRIVE } from "./drivePlayground.ts";

export const DRIVES: Readonly<Record<string, Drive>> = {
  ...AGENT_DRIVES,
  ...MCP_DRIVES,
  ...MODEL_DRIVES,
  "examples/playground": PLAYGROUND_DRIVE,
};
