/**
 * What authenticated the caller of an MCP server, for the tools that it calls. The handlers run
 * each request inside `withAuthContext`; tools read it with `getMcpAuthContext`.
 */
import { AsyncLocalStorage } from "node:async_hooks";

/** The caller, as the module's own authentication described it. */
export interface McpAuthContext {
  /** What `ctx.props` of the request held. */
  readonly props: Record<string, unknown>;
}

// One store per process: tools ask for it without a handle.
const current = new AsyncLocalStorage<McpAuthContext | undefined>();

/** The caller of the tool that runs; undefined outside of one, and for requests without props. */
export const getMcpAuthContext = (): McpAuthContext | undefined => current.getStore();

export const withAuthContext = <A>(context: McpAuthContext | undefined, f: () => A): A =>
  current.run(context, f);

/** From the third argument of a module's `fetch`, where an authentication layer has put `props`. */
export function authContextOf(ctx: unknown): McpAuthContext | undefined {
  const props = (ctx as { readonly props?: unknown } | undefined)?.props;
  return isRecord(props) && Object.keys(props).length > 0 ? { props } : undefined;
}

export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
