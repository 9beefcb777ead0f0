/**
 * Asks a connected MCP server what it offers. Every client of the agent receives it, so more than
 * `OFFER_CHARS_MAX` is refused. Called by `McpServer`.
 */
import type {
  McpConnection,
  McpListKind,
  McpPrompt,
  McpRequestOptions,
  McpResource,
  McpResourceTemplate,
  McpTool,
} from "./McpClients.ts";

/** Some thousands of tools. UTF-16 units of JSON. */
const OFFER_CHARS_MAX = 2_000_000;

/** What it offers. */
export interface Offer {
  readonly tools: ReadonlyArray<McpTool>;
  readonly prompts: ReadonlyArray<McpPrompt>;
  readonly resources: ReadonlyArray<McpResource>;
  readonly resourceTemplates: ReadonlyArray<McpResourceTemplate>;
}
export const NOTHING: Offer = { tools: [], prompts: [], resources: [], resourceTemplates: [] };

/** The lists, and the capability of a server that has each. */
const CAPABILITIES: ReadonlyArray<readonly [McpListKind, string]> = [
  ["tools", "tools"],
  ["prompts", "prompts"],
  ["resources", "resources"],
  ["resourceTemplates", "resources"],
];

/**
 * Reads the first list by itself, so that a server that wants consent refuses one request only, and
 * one authorization begins. Rejects with the error of a list, and if the offer is too large.
 */
export async function readOffer(
  connection: McpConnection,
  options: McpRequestOptions,
): Promise<Offer> {
  const has = ([, capability]: (typeof CAPABILITIES)[number]): boolean =>
    connection.capabilities[capability] !== undefined;
  const [first, ...others] = CAPABILITIES.filter(has).map(([kind]) => kind);
  const read = async (kind: McpListKind) => [kind, await connection.list(kind, options)] as const;
  const lists = first === undefined ? [] : [await read(first)];
  lists.push(...(await Promise.all(others.map(read))));
  const offer = { ...NOTHING, ...(Object.fromEntries(lists) as Partial<Offer>) };
  const size = JSON.stringify(offer).length + (connection.instructions?.length ?? 0);
  if (size <= OFFER_CHARS_MAX) return offer;
  throw new Error(
    `The server offers too much: ${size} characters, and the limit is ${OFFER_CHARS_MAX}`,
  );
}
