/**
 * The WebSocket protocol of `protocol.md` §2: the text frames that the runtime sends, and what a
 * client's text frame is. Pure. A frame that is *almost* one of the protocol's (a numeric rpc id, a
 * state frame without `state`) is an ordinary message, and goes to `onMessage` without an error.
 */
import { camelCaseToKebabCase, type AgentId } from "../../schemas/Address.ts";
import { ownName } from "../../schemas/AgentPath.ts";
import { isDeeperThan, writtenJson } from "../journal/jsonText.ts";
import { LEVELS_MAX } from "../journal/walkJson.ts";

export const identityFrame = (id: AgentId, stateFollows: boolean): string =>
  JSON.stringify({
    type: "cf_agent_identity",
    name: ownName(id),
    agent: camelCaseToKebabCase(id.class),
    ...(stateFollows ? { stateFollows: true } : {}),
  });

/**
 * `state` is JSON text already; it is spliced in, not parsed. `seq`, beyond the protocol, is the
 * journal sequence at which this was the state: a client that had a later one ignores it.
 */
export const stateFrame = (state: string, seq: number): string =>
  `{"type":"cf_agent_state","state":${state},"seq":${seq}}`;

export const stateErrorFrame = (
  error: "Connection is readonly" | "State update rejected",
): string => JSON.stringify({ type: "cf_agent_state_error", error });

const NO_SERVERS = { servers: {}, tools: [], prompts: [], resources: [] };

/** Sent on every connect, empty while the agent has no MCP servers. */
export const mcpServersFrame = (mcp: object = NO_SERVERS): string =>
  JSON.stringify({ type: "cf_agent_mcp_servers", mcp });

/** The protocol's frame types under the names that the reference exports. */
export const MessageType = {
  CF_AGENT_IDENTITY: "cf_agent_identity",
  CF_AGENT_STATE: "cf_agent_state",
  CF_AGENT_STATE_ERROR: "cf_agent_state_error",
  CF_AGENT_MCP_SERVERS: "cf_agent_mcp_servers",
  RPC: "rpc",
} as const;

/** `stream` and `seq`, beyond the protocol: it is of a durable stream, and where in it that is. */
export type RpcReply = { readonly stream?: string; readonly seq?: string } & (
  | { readonly success: true; readonly result?: unknown; readonly done: boolean }
  | { readonly success: false; readonly error: string }
);

/**
 * Beyond the protocol: a durable stream, for a client that asked for it by `id`. `seq` is the place
 * after `chunks`; `resume` asks the client for its place.
 */
export interface StreamFrame {
  readonly id: string;
  readonly key: string;
  readonly seq?: string;
  readonly chunks?: ReadonlyArray<unknown>;
  /** The chunks before are of another stream. */
  readonly restart?: boolean;
  readonly done?: boolean;
  readonly result?: unknown;
  readonly error?: string;
  readonly resume?: boolean;
}

export const streamFrame = (frame: StreamFrame): string =>
  JSON.stringify({ type: "cf_agent_stream", ...frame });

/**
 * Beyond the protocol: a kept broadcast with its number, as text or as bytes in base64. `resent`:
 * one that the client missed; numbers between may be of messages that are not for it. Without a
 * message, the place of the newest: `end` after what was resent. `missed`: some are not kept any
 * more.
 */
export interface KeptFrame {
  readonly seq: string;
  readonly message?: string;
  readonly data?: string;
  readonly resent?: true;
  readonly end?: true;
  readonly missed?: true;
}

export const keptFrame = (frame: KeptFrame): string =>
  JSON.stringify({ type: "cf_agent_kept", ...frame });

/** Throws as `writtenJson` for a result that JSON can't represent. */
export const rpcFrame = (id: string, reply: RpcReply): string =>
  writtenJson({ type: "rpc", id, ...reply }, "the answer")!;

export type ClientFrame =
  | { readonly _tag: "State"; readonly state: unknown }
  /** `key`: of a durable call. Empty, which no call may have, where the client's is no text. */
  | {
      readonly _tag: "Rpc";
      readonly id: string;
      readonly method: string;
      readonly args: unknown[];
      readonly key: string | undefined;
    }
  | { readonly _tag: "Cancel"; readonly id: string }
  /** Without a key: the client stops reading. */
  | {
      readonly _tag: "Stream";
      readonly id: string;
      readonly key: string | undefined;
      readonly since: string | undefined;
    }
  /** It missed kept broadcasts after that place. */
  | { readonly _tag: "Missed"; readonly since: string }
  /** A state or a call past `FRAME_LEVELS_MAX`. */
  | { readonly _tag: "TooDeep" }
  | { readonly _tag: "Message" };

/**
 * Twice what can be stored, so that a value which is a little too deep gets the error that says so.
 * `JSON.parse` takes half a second for a MiB of nothing but levels.
 */
export const FRAME_LEVELS_MAX = 2 * LEVELS_MAX;
const STATE_OR_CALL = /"type"\s*:\s*"(?:cf_agent_state|rpc)"/;

const MESSAGE: ClientFrame = { _tag: "Message" };

/** A client repeats a call that has a key, so a call whose key can't be read must not run. */
const callKeyOf = (key: unknown): string | undefined =>
  typeof key === "string" ? key : key === undefined || key === null ? undefined : "";

export function parseClientFrame(text: string): ClientFrame {
  // Only an object can be a protocol frame, so most other messages need not be parsed.
  if (!text.includes('"type"')) return MESSAGE;
  if (isDeeperThan(FRAME_LEVELS_MAX, text))
    return STATE_OR_CALL.test(text) ? { _tag: "TooDeep" } : MESSAGE;
  let frame: unknown;
  try {
    frame = JSON.parse(text);
  } catch {
    return MESSAGE;
  }
  if (typeof frame !== "object" || frame === null) return MESSAGE;
  const { type, id, method, args, key, since, cancel } = frame as Record<string, unknown>;
  if (type === "cf_agent_state" && Object.hasOwn(frame, "state"))
    return { _tag: "State", state: (frame as { state: unknown }).state };
  if (type === "rpc" && typeof id === "string" && typeof method === "string" && Array.isArray(args))
    return { _tag: "Rpc", id, method, args, key: callKeyOf(key) };
  if (type === "cf_agent_kept" && typeof since === "string") return { _tag: "Missed", since };
  if (type === "rpc_cancel" && typeof id === "string") return { _tag: "Cancel", id };
  if (type === "cf_agent_stream" && typeof id === "string") {
    if (cancel === true) return { _tag: "Stream", id, key: undefined, since: undefined };
    if (typeof key === "string" && (since === undefined || typeof since === "string"))
      return { _tag: "Stream", id, key, since };
  }
  return MESSAGE;
}
