/**
 * The client that `useAgent` gives a component: an `AgentClient` whose calls and states go through its
 * session's live client, so that an old reference still reaches the agent, and whose callbacks are those
 * of the latest render. Made inert; the session connects it.
 */
import { camelCaseToKebabCase } from "../../schemas/kebabCase.ts";
import {
  AgentClient,
  type AgentCall,
  type AgentClientOptions,
  type AgentStub,
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

/** What a client needs of the session that made it; `AgentSession` implements it. */
export interface HookSession<AgentT, State> {
  /** Of the latest committed render. */
  readonly options: UseAgentOptions<State>;
  readonly call: AgentCall<AgentT>;
  readonly stub: AgentStub<AgentT>;
  /** The client that calls go to; `or` before any was committed. */
  live(or: HookClient<AgentT, State>): HookClient<AgentT, State>;
  /** The client has changed what readers see. */
  changed(client: HookClient<AgentT, State>): void;
  /** The client's connection has closed. */
  closed(client: HookClient<AgentT, State>): void;
}

export class HookClient<AgentT = unknown, State = StateOf<AgentT>> extends AgentClient<
  AgentT,
  State
> {
  /** Root first, the agent itself last. */
  readonly chain: ReadonlyArray<PathStep>;
  /** `call` of this very client. */
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
    // What components know as `path`; PartySocket's own is only read while it is made.
    (this as unknown as { path: unknown }).path = this.chain;
    this.addEventListener("open", (event) => session.options.onOpen?.(event));
    this.addEventListener("close", (event) => {
      session.closed(this);
      session.options.onClose?.(event as unknown as CloseEvent);
    });
    this.addEventListener("error", (event) => session.options.onError?.(event));
  }

  /**
   * The socket's URL for `fetch`, its query included (a token may be in it); without one before an
   * async query has come.
   */
  readonly getHttpUrl = (): string => {
    const url = typeof this._url === "string" ? this._url : this.url || this.roomUrl;
    return url.replace(/^ws/, "http");
  };

  override setState(state: State): void {
    const live = this.#session.live(this);
    if (live === this) super.setState(state);
    else live.setState(state);
  }

  /** Shows what the client before showed, while the new connection has nothing yet. */
  showAs(before: AgentClient<AgentT, State>): void {
    this.state = before.state;
    this.seq = before.seq;
  }

  replaceBy(next: HookClient<AgentT, State>, sameAddress: boolean): void {
    this.handOver(next, sameAddress);
  }

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

/** Callbacks are read when they are due: each render may bring others. */
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
    get shouldReconnectOnClose() {
      return session.options.shouldReconnectOnClose ?? (() => true);
    },
    get defaultCallTimeout() {
      return session.options.defaultCallTimeout;
    },
  };
  return Object.assign(live, socketOptions(options), query === undefined ? {} : { query });
}
