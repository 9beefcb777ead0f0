/**
 * The id of an MCP server, derived from its display name: lower case, letters and digits with
 * single dashes between, beginning with a letter, at most 64 characters (`protocol.md` §9). Pure.
 */

/** Ids are part of tool names, which model providers limit to 64 characters. */
export const MCP_SERVER_ID_MAX_LENGTH = 64;

/** Throws `TypeError` when nothing of `name` is left. */
export function normalizeServerId(name: string): string {
  const plain = name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, ""); // prettier-ignore
  if (plain === "")
    throw new TypeError(`An MCP server's id needs a letter or a digit; "${name}" has none`);
  const id = /^[a-z]/.test(plain) ? plain : `id-${plain}`;
  return id.slice(0, MCP_SERVER_ID_MAX_LENGTH).replace(/-$/, "");
}

/** Throws `TypeError` for an id that could be mistaken for a part of another's stored keys. */
export function checkServerId(id: string): void {
  if (typeof id === "string" && id.length <= MCP_SERVER_ID_MAX_LENGTH && /^[^\p{Cc}/]+$/u.test(id))
    return;
  throw new TypeError(
    `An MCP server's id is 1 to ${MCP_SERVER_ID_MAX_LENGTH} characters without "/"; "${String(id)}" is not (normalizeServerId makes one)`,
  );
}
