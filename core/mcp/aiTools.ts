/**
 * MCP tools in the shape that the `ai` package's `generateText({ tools })` takes. Made by hand, so
 * that the package is needed only by those who use it: a schema is marked by a registered symbol.
 */
import type { McpTool, McpToolResult } from "./McpClients.ts";

/** The mark by which the `ai` package distinguishes a JSON schema from a schema library's. */
const SCHEMA = Symbol.for("vercel.ai.schema");

interface AiTool {
  readonly description?: string;
  readonly title?: string;
  /** A schema of the `ai` package; typed as loosely as it takes it. */
  readonly inputSchema: never;
  readonly execute: (
    input: unknown,
    options: { readonly abortSignal?: AbortSignal },
  ) => Promise<McpToolResult>;
}
export type AiToolSet = Record<string, AiTool>;

/** The dashes of ids are left out, because model providers refuse them in some places. */
export const aiToolName = (serverId: string, tool: string): string =>
  `tool_${serverId.replaceAll("-", "")}_${tool}`;

/** A result with `isError` is thrown, with the server's text, so that the model sees it. */
export function aiTool(
  tool: McpTool,
  call: (
    input: Readonly<Record<string, unknown>>,
    signal: AbortSignal | undefined,
  ) => Promise<McpToolResult>,
): AiTool {
  const schema = {
    [SCHEMA]: true,
    _type: undefined,
    jsonSchema: tool.inputSchema,
    validate: undefined,
  };
  return {
    ...(tool.description === undefined ? {} : { description: tool.description }),
    ...(tool.title === undefined ? {} : { title: tool.title }),
    inputSchema: schema as never,
    execute: async (input, options) => {
      const result = await call(
        (input ?? {}) as Readonly<Record<string, unknown>>,
        options?.abortSignal,
      );
      if (result.isError !== true) return result;
      const text = result.content.find(({ type }) => type === "text")?.["text"];
      throw new Error(
        typeof text === "string" && text !== "" ? text : `The tool ${tool.name} failed`,
      );
    },
  };
}
