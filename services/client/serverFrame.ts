/**
 * Parses the server's frames into a closed union (`protocol.md` §2.1). Pure. Anything that is not a
 * complete frame of the protocol is `Other`, a message of the application.
 */

import { fromBase64 } from "../../schemas/base64.ts";

export type ServerFrame =
  | {
      readonly _tag: "Identity";
      readonly name: string;
      readonly agent: string;
      /** Whether the next frame of the protocol is a state. */
      readonly stateFollows: boolean;
    }
  | {
      readonly _tag: "State";
      readonly state: unknown;
      /** The agent's journal sequence at this state; undefined if the server does not send it. */
      readonly seq: number | undefined;
    }
  | { readonly _tag: "StateError"; readonly error: string }
  | { readonly _tag: "McpServers"; readonly mcp: unknown }
  | {
      readonly _tag: "Reply";
      readonly id: string;
      readonly reply: Reply;
      /** Set for a reply from a durable stream. */
      readonly place: StreamPlace | undefined;
    }
  /** A frame of a durable stream that this client reads. */
  | {
      readonly _tag: "Stream";
      readonly id: string;
      readonly key: string;
      readonly part: StreamPart;
    }
  /** A kept broadcast, or, without a message, the place of the newest one. */
  | {
      readonly _tag: "Kept";
      readonly seq: string;
      readonly message: string | ArrayBuffer | undefined;
      /** The client had missed it. Lower numbers may belong to messages for others. */
      readonly resent: boolean;
      /** All missed messages have been sent. */
      readonly end: boolean;
      /** This client missed messages that are no longer kept. */
      readonly missed: boolean;
    }
  | { readonly _tag: "Other" };

/** The reply to a call, or one chunk of it. */
export type Reply =
  | { readonly _tag: "Result"; readonly result: unknown }
  | { readonly _tag: "Chunk"; readonly result: unknown }
  | { readonly _tag: "Failure"; readonly error: string };

/** A reader's place in a durable stream. `seq` is the server's text: `<stream>.<last chunk>`. */
export interface StreamPlace {
  readonly key: string;
  readonly seq: string;
}

/** The part of a durable stream in one frame. */
export interface StreamPart {
  /** The place after `chunks`; undefined if the frame has none. */
  readonly seq: string | undefined;
  readonly chunks: ReadonlyArray<unknown>;
  /** Earlier chunks belong to another stream. */
  readonly restart: boolean;
  /** The end, after `chunks`. */
  readonly end: Reply | undefined;
  /** The server asks for the client's place. */
  readonly resume: boolean;
}

const OTHER: ServerFrame = { _tag: "Other" };

/** Never throws. */
export function parseServerFrame(data: unknown): ServerFrame {
  // Only text with a type can be a protocol frame. This avoids parsing most other messages.
  if (typeof data !== "string" || !data.includes('"type"')) return OTHER;
  let frame: unknown;
  try {
    frame = JSON.parse(data);
  } catch {
    return OTHER;
  }
  if (typeof frame !== "object" || frame === null) return OTHER;
  return classify(frame as Record<string, unknown>);
}

function classify(frame: Record<string, unknown>): ServerFrame {
  switch (frame["type"]) {
    case "cf_agent_identity": {
      const { name, agent, stateFollows } = frame;
      return typeof name === "string" && typeof agent === "string"
        ? { _tag: "Identity", name, agent, stateFollows: stateFollows === true }
        : OTHER;
    }
    case "cf_agent_state": {
      const { state, seq } = frame;
      return { _tag: "State", state, seq: typeof seq === "number" ? seq : undefined };
    }
    case "cf_agent_state_error":
      return { _tag: "StateError", error: textOf(frame["error"]) };
    case "cf_agent_mcp_servers":
      return { _tag: "McpServers", mcp: frame["mcp"] };
    case "rpc": {
      const { id, stream, seq } = frame;
      if (typeof id !== "string") return OTHER;
      const place = isText(stream) && isText(seq) ? { key: stream, seq } : undefined;
      return { _tag: "Reply", id, reply: replyOf(frame), place };
    }
    case "cf_agent_kept": {
      const { seq, message, data, resent, end, missed } = frame;
      if (!isText(seq)) return OTHER;
      const bytes = isText(data) ? (fromBase64(data).buffer as ArrayBuffer) : undefined;
      const given = isText(message) ? message : bytes;
      const flags = { resent: resent === true, end: end === true, missed: missed === true };
      return { _tag: "Kept", seq, message: given, ...flags };
    }
    case "cf_agent_stream":
      return isText(frame["id"]) && isText(frame["key"])
        ? { _tag: "Stream", id: frame["id"], key: frame["key"], part: partOf(frame) }
        : OTHER;
    default:
      return OTHER;
  }
}

function replyOf({ success, result, done, error }: Record<string, unknown>): Reply {
  if (success !== true) return { _tag: "Failure", error: textOf(error) };
  // A reply without `done` is complete: only a stream has `done: false`.
  return done === false ? { _tag: "Chunk", result } : { _tag: "Result", result };
}

function partOf({
  seq,
  chunks,
  restart,
  done,
  result,
  error,
  resume,
}: Record<string, unknown>): StreamPart {
  return {
    seq: isText(seq) ? seq : undefined,
    chunks: Array.isArray(chunks) ? chunks : [],
    restart: restart === true,
    end:
      done === true
        ? { _tag: "Result", result }
        : error === undefined
          ? undefined
          : { _tag: "Failure", error: textOf(error) },
    resume: resume === true,
  };
}

const isText = (value: unknown): value is string => typeof value === "string";

/** Servers send text. Anything else is shown as JSON, since `String` throws for some values. */
const textOf = (value: unknown): string =>
  typeof value === "string" ? value : String(JSON.stringify(value));
