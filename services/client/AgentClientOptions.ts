/** The options of an `AgentClient`: an agent's address, callbacks, and those of PartySocket. */
import type { PartySocketOptions } from "partysocket";
import type { AgentAddress } from "./agentAddress.ts";
import type { AgentConnectionError } from "./AgentConnectionError.ts";

/** Callbacks of an `AgentClient`. */
export interface AgentClientEvents<State> {
  /** The state has changed: by the server, or at once by `setState` here. */
  readonly onStateUpdate?: ((state: State, source: "server" | "client") => void) | undefined;
  /** The server refused a state that was set here. `state` keeps it until the server's next one. */
  readonly onStateUpdateError?: ((error: string) => void) | undefined;
  /** The server has sent the agent's name and class (kebab case), on each connection. */
  readonly onIdentity?: ((name: string, agent: string) => void) | undefined;
  /** A reconnect reached another agent. Without this callback a warning is logged. */
  readonly onIdentityChange?:
    ((oldName: string, newName: string, oldAgent: string, newAgent: string) => void) | undefined;
  /** This client missed broadcasts that are no longer kept. */
  readonly onMissed?: (() => void) | undefined;
  /** The connection has closed and will not reconnect. */
  readonly onConnectionError?: ((error: AgentConnectionError) => void) | undefined;
}

/** Options of `AgentClient`: the agent's address, the callbacks, and those of PartySocket. */
export type AgentClientOptions<State = unknown> = Omit<
  PartySocketOptions,
  "party" | "room" | keyof AgentAddress
> &
  AgentAddress &
  AgentClientEvents<State> & {
    /** Host and port of the server, like "example.com" or "localhost:8787". */
    readonly host: string;
    /** Milliseconds that a call without `stream`, `timeout` waits; 0: no limit. Default 30,000. */
    readonly defaultCallTimeout?: number | undefined;
  };
