/**
 * The client that `useAgent` returns: an `AgentClient` whose calls and states go through the
 * session's live client, so that an old reference still reaches the agent. Its callbacks are those
 * of the latest render. It is created inert; the session connects it.
 */
import { camelCaseToKebabCase } from "../../schemas/kebabCase.ts";
import { unplaced } from "../client/KeptPlace.ts";
import {
  AgentClient,
  type AgentCall,
  type AgentClientOptions,
  type AgentStub,
  type FollowOptions,
  type StateOf,
} from "../client/index.ts";
import {
  chainOf,
  socketOptions,
  type McpServersState,
  type PathStep,
  type UseAgentOptions,
} from "./agentOptions.ts";
import type { Query } from "./QueryCache.ts";

/** The part of its session that a client uses; `AgentSession` implements it. */
export interface HookSession<AgentT, State> {
  /** The options of the latest committed render. */
  readonly options: UseAgentOptions<State>;
  readonly call: AgentCall<AgentT>;
  readonly stub: AgentStub<AgentT>;
  /** The client that receives calls; `or` before the first commit. */
  live(or: HookClient<AgentT, State>): HookClient<AgentT, State>;
  /** The client's visible properties have changed. */
  changed(client: HookClient<AgentT, State>): void;
  /** The client's connection has closed. */
  closed(client: HookClient<AgentT, State>): void;
}

/** One socket of a session. */
export class HookClient<AgentT = unknown, State = StateOf<AgentT>> extends AgentClient<
  AgentT,
  State
> {
  /** The agent's path: root first, the agent itself last. */
  readonly chain: ReadonlyArray<PathStep>;
  /** `call` of this client, not of the session. */
  readonly ownCall: AgentClient<AgentT, State>["call"];
  readonly #session: HookSession<AgentT, State>;

  constructor(
    session: HookSession<AgentT, State>,
    options: UseAgentOptions<State>,
    query: Query | (() => Promise<Query>) | undefined,
  ) {
    super(clientOptions(session, options, query));
    this.#session = session;
    this.chain = chainOf(options);
    const leaf = this.chain.at(-1)!;
    this.agent = camelCaseToKebabCase(leaf.agent);
    this.name = leaf.name;
    this.ownCall = this.call;
    this.call = session.call;
    this.stub = session.stub;
    // The `path` of the public result. PartySocket reads its own only during construction.
    (this as unknown as { path: unknown }).path = this.chain;
    this.addEventListener("open", (event) => session.options.onOpen?.(event));
    this.addEventListener("close", (event) => {
      session.closed(this);
      session.options.onClose?.(event as unknown as CloseEvent);
    });
    this.addEventListener("error", (event) => session.options.onError?.(event));
  }

  /**
   * The socket's URL for `fetch`, with its query, which may contain a token. An async query is
   * missing until it has resolved.
   */
  readonly getHttpUrl = (): string => {
    const url = typeof this._url === "string" ? this._url : this.url || this.roomUrl;
    return unplaced(url).replace(/^ws/, "http");
  };

  override setState(state: State): void {
    const live = this.#session.live(this);
    if (live === this) super.setState(state);
    else live.setState(state);
  }

  override follow<Chunk = string, Final = unknown>(
    key: string,
    options?: FollowOptions<Chunk, Final>,
  ): Promise<Final | undefined> {
    const live = this.#session.live(this);
    return live === this ? super.follow(key, options) : live.follow(key, options);
  }

  /** Shows the previous client's state until the new connection has one. */
  showAs(before: AgentClient<AgentT, State>): void {
    this.state = before.state;
    this.seq = before.seq;
  }

  /** Passes waiting work to the next client. */
  replaceBy(next: HookClient<AgentT, State>, sameAddress: boolean): void {
    this.handOver(next, sameAddress);
  }

  /** Closes until `reconnect()`. */
  rest(): void {
    this.pause();
  }

  protected override changed(): void {
    this.#session.changed(this);
  }
  protected override onMcpServers(mcp: unknown): void {
    this.#session.options.onMcpUpdate?.(mcp as McpServersState);
  }
  protected override onOtherMessage(event: MessageEvent): void {
    this.#session.options.onMessage?.(event);
  }
}

/** Callbacks are read when they are called, since each render can replace them. */
function clientOptions<AgentT, State>(
  session: HookSession<AgentT, State>,
  options: UseAgentOptions<State>,
  query: Query | (() => Promise<Query>) | undefined,
): AgentClientOptions<State> {
  const live = {
    get onStateUpdate() {
      return session.options.onStateUpdate;
    },
    get onStateUpdateError() {
      return session.options.onStateUpdateError;
    },
    get onIdentity() {
      return session.options.onIdentity;
    },
    get onIdentityChange() {
      return session.options.onIdentityChange;
    },
    get onConnectionError() {
      return session.options.onConnectionError;
    },
    get onMissed() {
      return session.options.onMissed;
    },
    get shouldReconnectOnClose() {
      return session.options.shouldReconnectOnClose ?? (() => true);
    },
    get defaultCallTimeout() {
      return session.options.defaultCallTimeout;
    },
  };
  return Object.assign(live, socketOptions(options), query === undefined ? {} : { query });
}
