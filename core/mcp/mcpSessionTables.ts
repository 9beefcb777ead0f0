/**
 * The tables in which an MCP session keeps what it has sent: `DurableObjectEventStore` makes and
 * reads them, in the database of the session's agent. Clients have the numbers of their rows, so a
 * restore keeps them (`core/restore/keepSent.ts`).
 */

/** The events, numbered over all streams. */
export const MCP_EVENTS = "cf_agents_mcp_events";
/** The streams, and which of their requests wait for an answer. */
export const MCP_STREAMS = "cf_agents_mcp_streams";
