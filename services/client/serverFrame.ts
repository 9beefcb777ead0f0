/**
 * What a frame from the server is (`protocol.md` §2.1), as a closed union. Pure. Whatever is not one of
 * the protocol's frames, complete, is `Other`: the application's own.
 */
export type ServerFrame =
  | {
      readonly _tag: "Identity";
      readonly name: string;
      readonly agent: string;
      /** A state frame is the next of the protocol's frames. */
      readonly stateFollows: boolean;
    }
  | {
      readonly _tag: "State";
      readonly state: unknown;
      /** The agent's journal sequence at this state, from a server that tells it. */
      readonly seq: number | undefined;
    }
  | { readonly _tag: "StateError"; readonly error: string }
  | { readonly _tag: "McpServers"; readonly mcp: unknown }
  | { readonly _tag: "Reply"; readonly id: string; readonly reply: Reply }
  | { readonly _tag: "Other" };

export type Reply =
  | { readonly _tag: "Result"; readonly result: unknown }
  | { readonly _tag: "Chunk"; readonly result: unknown }
  | { readonly _tag: "Failure"; readonly error: string };

const OTHER: ServerFrame = { _tag: "Other" };

export function parseServerFrame(data: unknown): ServerFrame {
  // Only text that holds a type can be the protocol's: most other messages need no parse.
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
    case "rpc":
      return typeof frame["id"] === "string"
        ? { _tag: "Reply", id: frame["id"], reply: replyOf(frame) }
        : OTHER;
    default:
      return OTHER;
  }
}

function replyOf({ success, result, done, error }: Record<string, unknown>): Reply {
  if (success !== true) return { _tag: "Failure", error: textOf(error) };
  // A reply that says nothing of `done` is whole: only a stream writes `done: false`.
  return done === false ? { _tag: "Chunk", result } : { _tag: "Result", result };
}

/** Servers send text. `String` throws for some of what JSON can hold. */
const textOf = (value: unknown): string =>
  typeof value === "string" ? value : String(JSON.stringify(value));
