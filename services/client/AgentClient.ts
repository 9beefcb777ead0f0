/**
 * A live connection to one agent, in browsers and in Node: its state both ways, its methods by RPC, and
 * reconnecting, which PartySocket does (`protocol.md` §4.1). `agents/react` builds on it.
 *
 * 1. `ready` resolves when what the server sends first is here: the identity, and the state frame too
 *    when the identity says that one follows. Every close makes it wait again.
 * 2. A state set here holds at once and is not taken back when the server refuses it.
 * 3. After a final close (a terminal code, `shouldReconnectOnClose`, `maxRetries`, `close()`) no call
 *    waits: all reject, and so do later ones until `reconnect()`. Other closes: see `PendingCalls`.
 * 4. Where states carry their journal sequence, one older than the state shown is not shown.
 */
import { PartySocket, type PartySocketOptions } from "partysocket";
import { AgentConnectionError, isTerminalCloseEvent } from "./AgentConnectionError.ts";
import { partyAddress, type AgentAddress } from "./agentAddress.ts";
import type { AgentCall, AgentStub, CallOptions, StateOf, StreamOptions } from "./clientTypes.ts";
import { DEFAULT_CALL_TIMEOUT_MS, PendingCalls } from "./PendingCalls.ts";
import { parseServerFrame, type ServerFrame } from "./serverFrame.ts";
import { createStubProxy } from "./stubProxy.ts";

export interface AgentClientEvents<State> {
  /** A state from the server, or one set here, at once. */
  readonly onStateUpdate?: ((state: State, source: "server" | "client") => void) | undefined;
  /** The server refused a state set here; `state` keeps it. */
  readonly onStateUpdateError?: ((error: string) => void) | undefined;
  readonly onIdentity?: ((name: string, agent: string) => void) | undefined;
  /** A reconnect reached another agent. Without it, a warning on the console. */
  readonly onIdentityChange?:
    ((oldName: string, newName: string, oldAgent: string, newAgent: string) => void) | undefined;
  /** The connection is closed for good. */
  readonly onConnectionError?: ((error: AgentConnectionError) => void) | undefined;
}

export type AgentClientOptions<State = unknown> = Omit<
  PartySocketOptions,
  "party" | "room" | keyof AgentAddress
> &
  AgentAddress &
  AgentClientEvents<State> & {
    readonly host: string;
    /** Milliseconds that a call without `stream` waits when it doesn't say; default 30000, 0: for ever. */
    readonly defaultCallTimeout?: number | undefined;
  };

const CLOSED = "Connection closed";
const DISCARDED = "Call discarded: the agent address changed before the request could be sent";

export class AgentClient<AgentT = unknown, State = StateOf<AgentT>> extends PartySocket {
  /** Class of the agent in kebab case: as asked for, then as the server says. */
  agent: string;
  /** The latest state; undefined before the server's first. */
  state: State | undefined;
  /** Journal sequence of the latest state frame, from servers that send it; else undefined. */
  seq: number | undefined;
  /** True while connected and `ready`. */
  identified = false;
  /** Why the connection ended for good; null while it lives. */
  connectionError: AgentConnectionError | null = null;
  /**
   * Calls a method: `call("method", [args], { timeout, stream: { onChunk, onDone, onError } })`. Resolves
   * with its result, or a stream's final chunk; rejects with the server's error text, by timeout, or with
   * "Connection closed" when the call may have been lost.
   */
  call: AgentCall<AgentT>;
  /** The agent's methods: `stub.method(...args)`. */
  stub: AgentStub<AgentT>;

  readonly #options: AgentClientOptions<State>;
  readonly #pending = new PendingCalls();
  #ready = makeReady();
  #lastIdentity: { readonly name: string; readonly agent: string } | undefined;
  #awaitsState = false;
  #ended = false;
  #reconnecting = false;
  #pausing = false;
  /** Sequence of the state shown, of this connection. */
  #shownSeq: number | undefined;
  #finalClose: CloseEvent | undefined;

  constructor(options: AgentClientOptions<State>) {
    // PartySocket takes it while `this` is not there yet; it asks for the first time later.
    const closing = { shouldReconnect: (_event: CloseEvent): boolean => true };
    const address = partyAddress(options, "AgentClient");
    if (options.startClosed !== true) requireWebSocket(options);
    super({
      ...(options as PartySocketOptions),
      ...address,
      shouldReconnectOnClose: (event) => closing.shouldReconnect(event),
    });
    closing.shouldReconnect = (event) => this.#shouldReconnect(event);
    this.#options = options;
    this.agent = address.party;
    this.name = address.room;
    const call = (method: string, args?: ReadonlyArray<unknown>, how?: CallOptions) =>
      this.#call(method, args, how);
    this.call = call as AgentCall<AgentT>;
    this.stub = createStubProxy<AgentStub<AgentT>>(call);
    this.addEventListener("open", () => this.#opened());
    this.addEventListener("message", (event) => this.#received(event));
    this.addEventListener("close", () => this.#closed());
  }

  /** HTTP has no place on a socket: throws. See `agentFetch`. */
  static override fetch(): Promise<Response> {
    throw new Error("AgentClient.fetch does not exist: call agentFetch(options, init)");
  }

  /** Rule 1. Without identity frames (`sendIdentityOnConnect: false`) it never resolves. */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Replaces the agent's state; buffered while there is no connection. Rule 2. */
  setState(state: State): void {
    this.send(JSON.stringify({ type: "cf_agent_state", state }));
    this.state = state;
    this.changed();
    this.#options.onStateUpdate?.(state, "client");
  }

  /** Ends the connection at once; calls that wait reject. `reconnect()` starts anew. */
  override close(code?: number, reason?: string): void {
    super.close(code, reason);
    // Where no socket was open there was no close event.
    this.#end();
  }

  override reconnect(code?: number, reason?: string): void {
    requireWebSocket(this.#options);
    this.#ended = false;
    this.#reconnecting = true;
    try {
      super.reconnect(code, reason);
    } finally {
      this.#reconnecting = false;
    }
  }

  /** For a subclass: closes as if the connection were lost, until `reconnect()`; buffered calls wait. */
  protected pause(): void {
    this.#pausing = true;
    try {
      super.close();
    } finally {
      this.#pausing = false;
    }
  }

  /** For a subclass that shows the client: something that a reader could see has changed. */
  protected changed(): void {}
  /** For a subclass: the agent's MCP servers, as sent. */
  protected onMcpServers(_mcp: unknown): void {}
  /** For a subclass: a message that was none of the protocol's. */
  protected onOtherMessage(_event: MessageEvent): void {}

  /**
   * For a subclass that replaces its socket: what waits here goes on at `next`. Transmitted calls
   * reject. What is buffered goes out there if that is the same agent; else it is dropped, and its
   * calls reject. Who awaits `ready` here is told by `next`. Does not close this socket.
   */
  protected handOver(next: AgentClient<AgentT, State>, sameAddress: boolean): void {
    this.#pending.rejectTransmitted(CLOSED);
    const buffered = this.drainQueuedMessages();
    if (sameAddress) {
      for (const message of buffered) next.send(message);
      this.#pending.moveBuffered(next.#pending);
    } else this.#pending.rejectAll(DISCARDED);
    void next.#ready.promise.then(this.#ready.resolve);
  }

  #call(
    method: string,
    args: ReadonlyArray<unknown> = [],
    how: CallOptions | StreamOptions = {},
  ): Promise<unknown> {
    if (this.#ended) return Promise.reject(new Error(CLOSED));
    const { stream, timeout } = splitCallOptions(how);
    const backstop = this.#options.defaultCallTimeout ?? DEFAULT_CALL_TIMEOUT_MS;
    const timeoutMs = timeout ?? (stream === undefined ? backstop : undefined);
    const id = randomId();
    return this.#pending.start(id, { method, stream, timeoutMs }, () => {
      const frame = JSON.stringify({ type: "rpc", id, method, args });
      // A bounded buffer drops silently; only its size tells.
      const bounded = this.#options.maxEnqueuedMessages !== undefined;
      const before = bounded ? this.bufferedAmount : 0;
      if (this.send(frame)) return "transmitted";
      return bounded && this.bufferedAmount === before ? "dropped" : "buffered";
    });
  }

  #opened(): void {
    // PartySocket flushes its buffer before it says that it is open.
    this.#pending.markTransmitted();
    this.#shownSeq = undefined;
    if (this.connectionError === null) return;
    this.connectionError = null;
    this.changed();
  }

  #received(event: MessageEvent): void {
    const frame = parseServerFrame(event.data);
    switch (frame._tag) {
      case "Identity":
        return this.#identify(frame);
      case "State":
        return this.#show(frame);
      case "StateError":
        return this.#options.onStateUpdateError?.(frame.error);
      case "McpServers":
        return this.onMcpServers(frame.mcp);
      case "Reply":
        if (!this.#pending.settle(frame.id, frame.reply))
          console.warn(`AgentClient: a reply to a call that nobody waits for (${frame.id})`);
        return;
      case "Other":
        return this.onOtherMessage(event);
    }
  }

  #show({ state, seq }: ServerFrame & { _tag: "State" }): void {
    // Rule 4. The first state of a connection always counts: a restored agent may have gone back.
    const isLate = seq !== undefined && this.#shownSeq !== undefined && seq < this.#shownSeq;
    if (isLate) return;
    this.state = state as State;
    if (seq !== undefined) this.seq = this.#shownSeq = seq;
    if (this.#awaitsState) this.#becomeReady();
    this.changed();
    this.#options.onStateUpdate?.(this.state, "server");
  }

  #identify({ name, agent, stateFollows }: ServerFrame & { _tag: "Identity" }): void {
    const last = this.#lastIdentity;
    this.#lastIdentity = { name, agent };
    this.name = name;
    this.agent = agent;
    this.#awaitsState = stateFollows;
    if (!stateFollows) this.#becomeReady();
    this.changed();
    if (last !== undefined && (last.name !== name || last.agent !== agent)) {
      if (this.#options.onIdentityChange !== undefined)
        this.#options.onIdentityChange(last.name, name, last.agent, agent);
      else
        console.warn(
          `AgentClient: reconnected to ${agent} "${name}", before it was ${last.agent} "${last.name}"; ` +
            "pass onIdentityChange to handle it",
        );
    }
    this.#options.onIdentity?.(name, agent);
  }

  #becomeReady(): void {
    this.#awaitsState = false;
    this.identified = true;
    this.#ready.resolve();
  }

  /** PartySocket's question on every close, before it schedules the next attempt. */
  #shouldReconnect(event: CloseEvent): boolean {
    // `close()` has decided already; `reconnect()` closes with whatever code and means it.
    if (!this.shouldReconnect || this.#reconnecting) return this.shouldReconnect;
    const declined =
      isTerminalCloseEvent(event) ||
      this.#options.shouldReconnectOnClose?.(event as never) === false;
    const spent = this.retryCount >= (this.#options.maxRetries ?? Infinity);
    if (declined || spent) this.#finalClose = event;
    return !declined;
  }

  #closed(): void {
    const event = this.#finalClose;
    this.#finalClose = undefined;
    if (event === undefined && (this.shouldReconnect || this.#pausing)) {
      this.#pending.rejectTransmitted(CLOSED);
      return this.#unready();
    }
    if (event !== undefined) this.connectionError = new AgentConnectionError(event);
    this.#end();
    if (this.connectionError !== null && event !== undefined)
      this.#options.onConnectionError?.(this.connectionError);
  }

  /** Rule 3. */
  #end(): void {
    this.#ended = true;
    this.#pending.rejectAll(CLOSED);
    this.#unready();
  }

  #unready(): void {
    if (this.identified) this.#ready = makeReady();
    this.identified = false;
    this.#awaitsState = false;
    this.changed();
  }
}

function makeReady(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve = (): void => undefined;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve };
}

/** The older shape is the stream's callbacks themselves; the newer has them under `stream`. */
function splitCallOptions(options: CallOptions | StreamOptions): CallOptions {
  const isBare = "onChunk" in options || "onDone" in options || "onError" in options;
  return isBare ? { stream: options } : (options as CallOptions);
}

function requireWebSocket(options: Pick<PartySocketOptions, "WebSocket">): void {
  if (options.WebSocket === undefined && typeof globalThis.WebSocket === "undefined")
    throw new TypeError(
      "AgentClient: this runtime has no global WebSocket (Node has one from version 22): pass an " +
        "implementation as the option WebSocket, such as the one of the package ws",
    );
}

/** `crypto.randomUUID` exists in secure contexts only; a page on a plain-http host has the other. */
function randomId(): string {
  if (typeof crypto.randomUUID === "function") return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
