/**
 * A live connection to one agent, in browsers and in Node: synchronizes its state, calls its
 * methods by RPC, and reconnects with PartySocket (`protocol.md` §4.1). `agents/react` builds on
 * it.
 *
 * 1. `ready` resolves once the server's first frames have arrived: the identity, and the state if
 *    the identity announces one. After each close it waits again.
 * 2. A state set here applies at once, and is not reverted if the server refuses it.
 * 3. After a final close (a terminal code, `shouldReconnectOnClose`, `maxRetries`, `close()`) all
 *    waiting calls reject, and so do later ones until `reconnect()`. Other closes: see
 *    `PendingCalls`.
 * 4. If states carry their journal sequence, a state older than the one shown is ignored.
 */
import { PartySocket, type PartySocketOptions } from "partysocket";
import { AgentConnectionError, type CloseFacts } from "./AgentConnectionError.ts";
import { partyAddress } from "./agentAddress.ts";
import type { AgentClientOptions } from "./AgentClientOptions.ts";
import type {
  AgentCall,
  AgentStub,
  CallOptions,
  FollowOptions,
  StateOf,
  StreamOptions,
} from "./clientTypes.ts";
import { callPage } from "./callPage.ts";
import { checkStreamKey, randomId, readCall } from "./callOptions.ts";
import { KeptPlace, placed, withPlace, type QueryOption } from "./KeptPlace.ts";
import { DurableRead } from "./DurableRead.ts";
import { FinalClose } from "./FinalClose.ts";
import {
  DEFAULT_CALL_TIMEOUT_MS,
  PendingCalls,
  type CallRequest,
  type StreamRequest,
} from "./PendingCalls.ts";
import { makeReady } from "./makeReady.ts";
import { reportIdentityChange, type Identity } from "./identityChange.ts";
import { isStateFrame, LargestSent } from "./LargestSent.ts";
import { requireWebSocket } from "./requireWebSocket.ts";
import { parseServerFrame, type ServerFrame } from "./serverFrame.ts";
import { createStubProxy } from "./stubProxy.ts";

const CLOSED = "Connection closed";
const TOO_LARGE = "State update rejected: the message is larger than the server accepts";
const DISCARDED = "Call discarded: the agent address changed before the request could be sent";

/**
 * Connects on construction, unless `startClosed` is set. The constructor throws `TypeError` for
 * options that name no agent or no host, and in a runtime without a WebSocket.
 */
export class AgentClient<AgentT = unknown, State = StateOf<AgentT>> extends PartySocket {
  /** Class of the agent in kebab case: from the options, then from the server. */
  agent: string;
  /** The latest state; undefined before the server's first one. */
  state: State | undefined;
  /** Journal sequence of the latest state frame; undefined if the server doesn't send one. */
  seq: number | undefined;
  /** True while connected and `ready`. */
  identified = false;
  /** The reason of the final close; null otherwise. */
  connectionError: AgentConnectionError | null = null;
  /**
   * Calls a method: `call("method", [args], { timeout, stream: { onChunk, onDone, onError } })`.
   * Resolves to its result, or to a stream's final chunk. Rejects with an `Error`: with the
   * server's text, on timeout, when the send buffer is full, or with "Connection closed" or "The
   * call was lost …" when the method may have run without an answer. A call without a connection
   * waits for the next one.
   */
  call: AgentCall<AgentT>;
  /** The agent's methods: `stub.method(...args)` is `call("method", args)`. */
  stub: AgentStub<AgentT>;

  readonly #options: AgentClientOptions<State>;
  readonly #pending = new PendingCalls(this);
  readonly #finalClose: FinalClose;
  readonly #sent = new LargestSent();
  readonly #place: KeptPlace;
  #ready = makeReady();
  #lastIdentity: Identity | undefined;
  #awaitsState = false;
  #ended = false;
  /** Set within `reconnect()`, which reconnects after any close code. */
  #reconnecting = false;
  #pausing = false;
  /** Sequence of the state shown, within this connection. */
  #shownSeq: number | undefined;

  constructor(options: AgentClientOptions<State>) {
    // PartySocket takes the callback before `this` exists, but only calls it later.
    const closing = { shouldReconnect: (_event: CloseEvent): boolean => true };
    const address = partyAddress(options, "AgentClient");
    if (options.startClosed !== true) requireWebSocket(options);
    const place = new KeptPlace();
    super({
      ...(options as PartySocketOptions),
      query: withPlace(options.query as QueryOption, place) as NonNullable<typeof options.query>,
      ...address,
      shouldReconnectOnClose: (event) => closing.shouldReconnect(event),
    });
    const finalClose = new FinalClose(this, options);
    closing.shouldReconnect = (event) => this.#reconnecting || finalClose.mayReconnect(event);
    this.#finalClose = finalClose;
    this.#options = options;
    this.#place = place;
    this.agent = address.party;
    this.name = address.room;
    const call = (method: string, args?: ReadonlyArray<unknown>, how?: CallOptions) =>
      this.#call(method, args, how);
    this.call = call as AgentCall<AgentT>;
    this.stub = createStubProxy<AgentStub<AgentT>>(call);
    this.addEventListener("open", () => this.#opened());
    this.addEventListener("message", (event) => this.#received(event));
    this.addEventListener("close", (event) => this.#lost(event));
    this.addEventListener("error", ({ message }) => {
      if (!finalClose.isLastAttempt(message)) return;
      super.close();
      this.#closed();
    });
  }

  /** Always throws: use `agentFetch` for HTTP. */
  static override fetch(): Promise<Response> {
    throw new Error("AgentClient.fetch does not exist: use agentFetch(options, init)");
  }

  /**
   * Resolves once the identity, and the state if one follows, have arrived (rule 1). Never rejects,
   * and never resolves where the class has `sendIdentityOnConnect: false`.
   */
  get ready(): Promise<void> {
    return this.#ready.promise;
  }

  /** Sends a message, or keeps it for the next connection. Returns whether it was sent. */
  override send(message: Parameters<PartySocket["send"]>[0]): boolean {
    this.#sent.add(message);
    return super.send(message);
  }

  /**
   * Replaces the agent's state with a JSON value (rule 2). Buffered while there is no connection. A
   * refusal calls `onStateUpdateError`.
   */
  setState(state: State): void {
    this.send(JSON.stringify({ type: "cf_agent_state", state }));
    this.state = state;
    this.changed();
    this.#options.onStateUpdate?.(state, "client");
  }

  /**
   * Reads a durable stream of the agent (`this.stream(key)` there): each chunk once and in order,
   * over any number of lost connections and hosts. Resolves to the value that the stream ended
   * with. Rejects with the text of its failure, with "There is no stream …" if it has not started
   * within 10 s, with the reason of `signal`, and with "Connection closed" after a final close.
   */
  async follow<Chunk = string, Final = unknown>(
    key: string,
    options: FollowOptions<Chunk, Final> = {},
  ): Promise<Final | undefined> {
    checkStreamKey(key);
    if (this.#ended) throw new Error(CLOSED);
    const { since, signal, ...stream } = options as FollowOptions;
    if (signal?.aborted === true) throw signal.reason;
    const id = randomId();
    const read = new DurableRead(key, since);
    const callbacks = stream as CallRequest["stream"];
    const request = { method: key, stream: callbacks, read, signal, timeoutMs: undefined };
    const result = this.#pending.start(id, request, () => {
      // Without a connection, the next one asks when it opens.
      if (this.readyState === this.OPEN)
        this.#ask({ id, key, ...(since === undefined ? {} : { since }) });
      return "transmitted";
    });
    result.catch(() => {
      if (signal?.aborted === true && this.readyState === this.OPEN)
        this.#ask({ id, cancel: true });
    });
    return result as Promise<Final | undefined>;
  }

  /** Closes the connection at once; waiting calls reject. `reconnect()` opens it again. */
  override close(code?: number, reason?: string): void {
    // Without an open socket there is no close event.
    this.#end(); // first: a frame that is buffered after `close` logs a warning
    super.close(code, reason);
  }

  /** Closes the socket, if any, and connects again. Throws `TypeError` without a WebSocket. */
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

  /** For subclasses: disconnects as by a lost connection until `reconnect()`; calls wait. */
  protected pause(): void {
    this.#pausing = true;
    // PartySocket warns that messages after `close` are lost; those of a paused client wait.
    (this as unknown as { _didWarnAboutClosedSend: boolean })._didWarnAboutClosedSend = true;
    try {
      super.close();
    } finally {
      this.#pausing = false;
    }
  }

  /** For subclasses: called when a visible property has changed. */
  protected changed(): void {}
  /** For subclasses: called with the agent's MCP servers, as sent. */
  protected onMcpServers(_mcp: unknown): void {}
  /** For subclasses: called with a message that is not a protocol frame. */
  protected onOtherMessage(_event: MessageEvent): void {}

  /**
   * For subclasses that replace their socket: passes waiting work to `next`. Transmitted calls
   * reject. Buffered messages are sent by `next` if it has the same address; otherwise they are
   * dropped, and their calls reject. `ready` of this client resolves with that of `next`. Does not
   * close this socket.
   */
  protected handOver(next: AgentClient<AgentT, State>, sameAddress: boolean): void {
    this.#pending.rejectTransmitted(CLOSED);
    const buffered = this.drainQueuedMessages();
    if (sameAddress) {
      for (const message of buffered) next.send(message);
      next.#place.copy(this.#place);
      next.#placeUrl();
      this.#pending.moveBuffered(next.#pending);
    } else this.#pending.rejectAll(DISCARDED);
    void next.#ready.promise.then(this.#ready.resolve);
  }

  async #call(
    method: string,
    args: ReadonlyArray<unknown> = [],
    how: CallOptions | StreamOptions = {},
  ): Promise<unknown> {
    const { stream, timeout, signal, key } = readCall(method, args, how);
    if (this.#ended) throw new Error(CLOSED);
    if (signal?.aborted) throw signal.reason;
    const { defaultCallTimeout = DEFAULT_CALL_TIMEOUT_MS, maxEnqueuedMessages } = this.#options;
    const timeoutMs = timeout ?? (stream === undefined ? defaultCallTimeout : undefined);
    const id = randomId();
    const cancel = JSON.stringify({ type: "rpc_cancel", id });
    let frame = "";
    const request = { method, stream, timeoutMs, signal, cancel, key, frame: () => frame };
    return this.#pending.start(id, request, () => {
      frame = JSON.stringify({ type: "rpc", id, method, args, key });
      // A bounded buffer drops messages silently, which only its size reveals.
      const before = maxEnqueuedMessages === undefined ? -1 : this.bufferedAmount;
      if (this.send(frame)) return "transmitted";
      return this.bufferedAmount === before ? "dropped" : "buffered";
    });
  }

  #opened(): void {
    this.#pending.askAgain();
    // PartySocket flushes its buffer before it reports that it is open.
    this.#pending.markTransmitted();
    for (const read of this.#pending.reads()) this.#ask(read);
    this.#shownSeq = undefined;
    this.#sent.opened();
    this.#place.opened();
    this.#placeUrl();
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
        return this.#settle(frame);
      case "Stream": {
        const request = this.#pending.take(frame.id, frame.part);
        return request && this.#ask(request);
      }
      case "Kept":
        return this.#kept(frame);
      case "Other":
        return this.onOtherMessage(event);
    }
  }

  #settle({ id, reply, place }: ServerFrame & { _tag: "Reply" }): void {
    const settled = this.#pending.settle(id, reply, place);
    if (typeof settled === "object") this.#ask(settled);
    else if (!settled) console.warn(`AgentClient: received a reply to an unknown call (${id})`);
  }

  #kept({ seq, message, resent, end, missed }: ServerFrame & { _tag: "Kept" }): void {
    if (missed) callPage(() => this.#options.onMissed?.());
    const step = this.#place.step(seq);
    const isLost = message === undefined ? !end && step !== "known" : !resent && step === "gap";
    if (isLost) this.send(JSON.stringify({ type: "cf_agent_kept", since: this.#place.text }));
    if (isLost || step === "known") return;
    this.#place.take(seq);
    this.#placeUrl();
    if (message === undefined) return;
    // Listeners receive it like the message of a server that keeps none.
    const isBlob = typeof message !== "string" && this.binaryType === "blob";
    const event = new MessageEvent("message", { data: isBlob ? new Blob([message]) : message });
    this.onmessage?.(event as never);
    this.dispatchEvent(event as never);
  }

  /** Puts the place into the next connection's URL. A URL function does so when it is called. */
  #placeUrl(): void {
    if (typeof this._url === "string") this._url = placed(this._url, this.#place);
  }

  #ask(request: StreamRequest): void {
    this.send(JSON.stringify({ type: "cf_agent_stream", ...request }));
  }

  #show({ state, seq }: ServerFrame & { _tag: "State" }): void {
    // Rule 4. The first state of a connection is always used, since a restored agent may have an
    // older one.
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
    reportIdentityChange(last, { name, agent }, this.#options);
    this.#options.onIdentity?.(name, agent);
  }

  #becomeReady(): void {
    this.#awaitsState = false;
    this.identified = true;
    this.#ready.resolve();
  }

  /** A close event. A message that the server refused as too large is known to be the cause. */
  #lost(event: CloseFacts): void {
    const refused = this.#sent.closed(event);
    if (refused !== undefined) this.#pending.refuse(refused);
    this.#closed();
    if (refused !== undefined && isStateFrame(refused))
      this.#options.onStateUpdateError?.(TOO_LARGE);
  }

  #closed(): void {
    const facts = this.#finalClose.take();
    if (facts === undefined && (this.shouldReconnect || this.#pausing)) {
      this.#pending.rejectTransmitted(CLOSED);
      return this.#unready();
    }
    const error = facts && new AgentConnectionError(facts);
    if (error !== undefined) this.connectionError = error;
    this.#end();
    if (error !== undefined) this.#options.onConnectionError?.(error);
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
