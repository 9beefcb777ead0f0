/**
 * Asks a connected MCP server what it offers. Every client of the agent receives what all of the
 * agent's servers offer as one frame, so more than `OFFER_CHARS_MAX` together is refused. Called by
 * `McpServer`.
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

/**
 * Some thousands of tools. UTF-16 units of JSON, of all servers of an agent: at most 6 MB of UTF-8,
 * where a gateway closes a socket that has more than 8 MiB unsent.
 */
const OFFER_CHARS_MAX = 2_000_000;

/** What it offers, and what it says of itself. */
export interface Offer {
  readonly instructions: string | null;
  readonly capabilities: Readonly<Record<string, unknown>> | null;
  readonly tools: ReadonlyArray<McpTool>;
  readonly prompts: ReadonlyArray<McpPrompt>;
  readonly resources: ReadonlyArray<McpResource>;
  readonly resourceTemplates: ReadonlyArray<McpResourceTemplate>;
  /** UTF-16 units of all of it as JSON. */
  readonly chars: number;
}
export const NOTHING: Offer = {
  instructions: null,
  capabilities: null,
  tools: [],
  prompts: [],
  resources: [],
  resourceTemplates: [],
  chars: 0,
};

/** The lists, and the capability of a server that has each. */
const CAPABILITIES: ReadonlyArray<readonly [McpListKind, string]> = [
  ["tools", "tools"],
  ["prompts", "prompts"],
  ["resources", "resources"],
  ["resourceTemplates", "resources"],
];

/**
 * Reads the first list by itself, so that a server that wants consent refuses one request only, and
 * one authorization begins. `charsBeside`: what the agent's other servers offer by then.
 * Rejects with the error of a list, and if the offer is too large.
 */
export async function readOffer(
  connection: McpConnection,
  options: McpRequestOptions,
  charsBeside: () => number,
): Promise<Offer> {
  const has = ([, capability]: (typeof CAPABILITIES)[number]): boolean =>
    connection.capabilities[capability] !== undefined;
  const [first, ...others] = CAPABILITIES.filter(has).map(([kind]) => kind);
  const read = async (kind: McpListKind) => [kind, await connection.list(kind, options)] as const;
  const lists = first === undefined ? [] : [await read(first)];
  lists.push(...(await Promise.all(others.map(read))));
  const { instructions = null, capabilities } = connection;
  const said = { ...NOTHING, instructions, capabilities, ...(Object.fromEntries(lists) as Partial<Offer>) }; // prettier-ignore
  const chars = JSON.stringify(said).length;
  const otherChars = charsBeside();
  if (chars + otherChars <= OFFER_CHARS_MAX) return { ...said, chars };
  const beside = otherChars === 0 ? "" : `, the agent's other servers ${otherChars},`;
  throw new Error(
    `The server offers too much: ${chars} characters${beside} and the limit is ${OFFER_CHARS_MAX}`,
  );
}
