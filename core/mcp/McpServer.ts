/**
 * One MCP server of an agent, while the agent is in memory: its row, its connection, and what it
 * offers. Made and listed by `MCPClientManager`; the connection itself is the port's
 * (`McpClients`).
 *
 * 1. One attempt to connect at a time, and one listing of its offers; callers share them.
 * 2. An attempt or connection that was given up is closed, and its outcome is ignored.
 * 3. Its work runs apart from the turn that asked for it: its writes are not that turn's.
 * 4. A server that wants consent right after its user has given it has failed: nobody is asked for
 *    the same again and again.
 * 5. A connection whose session the server has forgotten is replaced at once, and closed when the
 *    requests that run on it have ended: each is answered, or refused and sent again. So is that
 *    of a server that is replaced, and one whose user has given consent for it.
 * 6. Who waits for a server that is replaced, for other options or another id, waits for the one
 *    that has replaced it (`latest`).
 * 7. One that was removed or replaced does not write to the row of its id, and does not connect.
 */
import { backoffMs } from "../retry/retryPolicy.ts";
import { askOnce } from "./askOnce.ts";
import { ChangedLists } from "./ChangedLists.ts";
import { errorText } from "./errorText.ts";
import { McpRequestFailed, type McpConnection, type McpConnectResult } from "./McpClients.ts";
import { readOptions, readRetry, type McpServerRow } from "./McpServerTable.ts";
import type { McpServerHost } from "./McpServerHost.ts";
import type { OAuthProvider } from "./OAuthProvider.ts";
import { ownProvider } from "./ownProvider.ts";
import { CLOSED, STILL_REFUSED, whyRefused, type McpConnectionResult, type McpDiscoverResult, type McpOAuthCallbackResult, type McpServerState } from "./McpServerState.ts"; // prettier-ignore
import { NOTHING, readOffer, type Offer } from "./readOffer.ts";
import { SharedRun } from "./SharedRun.ts";
import { limitedSignal } from "../time/limitedSignal.ts";

/** A working server answers in less time; a hanging one must not block its user for ever. */
const CONNECT_TIMEOUT_MS = 30_000;
/** As in `protocol.md` §9. */
export const DISCOVER_TIMEOUT_MS = 15_000;
/** A connection that lasted this long did not break soon. */
const STABLE_MS = 60_000;

export class McpServer {
  row: McpServerRow;
  state: McpServerState = "not-connected";
  error: string | null = null;
  connection: McpConnection | undefined;
  /** Rule 4: its user has consented, and it has not been ready since. */
  consented = false;
  /** The callbacks that are being handled, by the nonce of their state. */
  readonly callbacks = new Map<string, Promise<McpOAuthCallbackResult>>();
  offer: Offer = NOTHING;
  private readonly host: McpServerHost;
  /** The provider of the present attempt or connection. */
  private auth: OAuthProvider | undefined;
  private readonly attempt = new SharedRun<McpConnectionResult>();
  private readonly discovery = new SharedRun<McpDiscoverResult>();
  /** Fires when the current attempt or connection is given up (rule 2). */
  private life = new AbortController();
  /** The number of deliberate closes, by which a retry notices that it is obsolete. */
  private closes = 0;
  /** Connections in a row that broke soon. */
  private breaks = 0;
  private readonly changedLists: ChangedLists;
  private readonly renewal: SharedRun<void>;
  /** Rule 5. */
  private readonly retired: Set<McpConnection>;
  private replacement: McpServer | undefined;

  /** `before` is the server that it replaces: `before.yieldTo(this)` follows. */
  constructor(row: McpServerRow, host: McpServerHost, before?: McpServer) {
    this.row = row;
    this.host = host;
    this.renewal = before?.renewal ?? new SharedRun();
    this.retired = before?.retired ?? new Set();
    this.changedLists = new ChangedLists(
      {
        current: () => this.connection,
        state: () => this.state,
        read: (connection) => this.ask(connection, DISCOVER_TIMEOUT_MS),
        changed: (offer) => {
          this.offer = offer;
          host.changed();
        },
        failed: (error) =>
          host.runtime.log.warn("an MCP server's changed lists were not read; the old ones stay", {
            server: this.id,
            error: errorText(error),
          }),
      },
      host.runtime.time,
    );
    if (row.auth_url !== null) this.state = "authenticating";
  }

  get id(): string {
    return this.row.id;
  }

  /** Rule 1. Never rejects. */
  connect(): Promise<McpConnectionResult> {
    return this.attempt.join(() =>
      this.host.runtime
        .inBackground(() => this.tryConnect())
        // The agent is gone, or can't write.
        .catch((error: unknown) => ({ state: "failed" as const, error: errorText(error) })),
    );
  }

  /** Connects, and learns what it offers. The agent stays in memory meanwhile. Never rejects. */
  establish(): Promise<McpConnectionResult> {
    const release = this.host.runtime.keepAlive();
    return this.connectAndDiscover().finally(release);
  }

  private async connectAndDiscover(): Promise<McpConnectionResult> {
    const result = await this.connect();
    if (result.state !== "connected") return result;
    const found = await this.discover(DISCOVER_TIMEOUT_MS);
    if (found.success) return result;
    if (found.state === "authenticating") return this.authenticating(this.row.auth_url!);
    return { state: "failed", error: found.error ?? "not discovered" };
  }

  /** `establish`, repeated as the retry options say, until it is ready, waits, or is given up. */
  async establishWithRetry(): Promise<McpConnectionResult> {
    const { time } = this.host.runtime;
    const retry = readRetry(this.row, this.host.runtime.log);
    const { closes } = this;
    for (let n = 1; ; n++) {
      const result = await this.establish();
      if (closes !== this.closes || n >= retry.maxAttempts) return result;
      if (result.state !== "failed") return result;
      const { signal } = this.life;
      await new Promise<void>((resolve) => {
        time.after(backoffMs(retry, n, time.random()), resolve);
        signal.addEventListener("abort", () => resolve(), { once: true });
      });
      if (signal.aborted) return result;
    }
  }

  /** Rule 1. Lists what it offers. Never rejects: a server that can't answer is `failed`. */
  discover(timeoutMs: number): Promise<McpDiscoverResult> {
    const { connection } = this;
    if (connection === undefined) return Promise.resolve({ success: false, state: this.state, error: "not connected" }); // prettier-ignore
    return this.discovery.join(() => this.listOffer(connection, timeoutMs));
  }

  private async listOffer(
    connection: McpConnection,
    timeoutMs: number,
  ): Promise<McpDiscoverResult> {
    this.become("discovering");
    try {
      const offer = await this.ask(connection, timeoutMs);
      if (this.connection !== connection)
        return { success: false, state: this.state, error: CLOSED };
      this.offer = offer;
      this.consented = false;
      this.become("ready");
      this.host.emit("mcp:client:discover", { url: this.row.server_url, state: this.state });
      return { success: true, state: "ready" };
    } catch (error) {
      // The server lets everyone connect, but wants consent for its lists.
      if (isUnauthorized(error) && this.unauthorized(connection))
        return { success: false, state: this.state, error: "it waits for its user" };
      const refused = this.consented && isUnauthorized(error);
      const message = refused ? STILL_REFUSED : errorText(error);
      this.host.emit("mcp:client:discover", { url: this.row.server_url, state: "failed", error: message }); // prettier-ignore
      if (this.connection !== connection)
        return { success: false, state: this.state, error: CLOSED };
      this.dropConnection();
      this.become("failed", message);
      return { success: false, state: "failed", error: message };
    }
  }

  /** Abandons the current operation. */
  async close(): Promise<void> {
    for (const connection of this.retired) void connection.close();
    const closing = this.abandon("not-connected", null);
    if (closing === undefined) return;
    this.host.emit("mcp:client:close", { url: this.row.server_url, transport: closing.transport, state: this.state }); // prettier-ignore
    await closing.done;
  }

  /** Rule 5; does nothing if the connection has been replaced. `state` is the state afterwards. */
  retire(connection: McpConnection, state: McpServerState = "not-connected"): void {
    if (this.connection !== connection) return;
    const { transport } = connection;
    this.connection = undefined;
    this.retired.add(connection);
    void connection.retire().finally(() => this.retired.delete(connection));
    this.abandon(state, null);
    this.host.emit("mcp:client:close", { url: this.row.server_url, transport, state });
  }

  /** Rule 6. */
  yieldTo(replacement: McpServer): void {
    this.replacement = replacement;
    if (this.connection !== undefined) this.retire(this.connection);
    else this.abandon("not-connected", null);
  }

  /** Rule 6: itself, unless it was replaced. */
  get latest(): McpServer {
    return this.replacement?.latest ?? this;
  }

  private abandon(state: McpServerState, error: string | null) {
    this.closes++;
    // Later callers make a new attempt.
    this.attempt.leave();
    const closing = this.dropConnection();
    if (this.state !== state || this.error !== error) this.become(state, error);
    return closing;
  }

  /** A provider of what is stored for it; the connection has one of its own (`auth`). */
  provider(): OAuthProvider {
    return ownProvider(this, this.host);
  }

  /** How to reach it; `signal` aborts the attempt. */
  target(auth: OAuthProvider, signal: AbortSignal) {
    const { transport = {} } = readOptions(this.row);
    return {
      url: this.row.server_url,
      transport: transport.type ?? ("auto" as const),
      headers: transport.headers ?? {},
      skipIssuerMetadataValidation: transport.skipIssuerMetadataValidation ?? false,
      auth,
      renewing: (renew: () => Promise<void>) => this.renewal.join(() => this.background(renew)),
      signal,
    };
  }

  /** Rule 3. The agent stays in memory meanwhile. */
  private background<A>(work: () => Promise<A>): Promise<A> {
    const release = this.host.runtime.keepAlive();
    return this.host.runtime.inBackground(work).finally(release);
  }

  /**
   * A request on the connection was refused for want of consent: tokens that can't be renewed, or a
   * further scope. Returns whether its user is asked.
   */
  unauthorized(connection: McpConnection): boolean {
    const authUrl = this.auth?.authUrl;
    if (this.connection !== connection || authUrl === undefined || this.consented) return false;
    if (this.state === "authenticating") return true;
    this.storeAuth(authUrl, this.auth?.clientId ?? null);
    this.become("authenticating"); // it stays in use: other requests may need no consent
    this.authenticating(authUrl);
    return true;
  }

  private authenticating(authUrl: string): McpConnectionResult {
    const id = this.row.client_id;
    const asked = { authUrl, ...(id === null ? {} : { clientId: id }) };
    this.host.emit("mcp:client:authorize", { serverId: this.id, ...asked });
    return { state: "authenticating", ...asked };
  }

  storeAuth(authUrl: string | null, clientId: string | null): void {
    if (!this.host.isListed(this)) return; // rule 7
    if (this.row.auth_url === authUrl && this.row.client_id === clientId) return;
    this.row = { ...this.row, auth_url: authUrl, client_id: clientId };
    this.host.table.setAuth(this.id, authUrl, clientId);
  }

  /** Its signal fires when the present attempt or connection is given up, or after `timeoutMs`. */
  limited(timeoutMs: number): ReturnType<typeof limitedSignal> {
    return limitedSignal(this.host.runtime.time, this.life.signal, timeoutMs);
  }

  become(state: McpServerState, error: string | null = null): void {
    this.state = state;
    this.error = error;
    this.host.changed();
  }

  private async tryConnect(): Promise<McpConnectionResult> {
    const before = this.dropConnection();
    const { life } = this;
    await before?.done;
    if (life.signal.aborted || !this.host.isListed(this)) return { state: "failed", error: CLOSED };
    const { emit } = this.host;
    emit("mcp:client:preconnect", { serverId: this.id });
    this.become("connecting");
    const { signal, free } = this.limited(CONNECT_TIMEOUT_MS);
    let result: McpConnectResult;
    let auth: OAuthProvider | undefined;
    try {
      auth = this.auth = this.provider();
      result = await this.open(auth, signal, life);
    } catch (error) {
      result = { _tag: "Failed", message: errorText(error) };
    } finally {
      free();
    }
    if (life.signal.aborted) {
      if (result._tag === "Connected") await result.connection.close();
      return { state: "failed", error: CLOSED };
    }
    return this.connected(result, auth);
  }

  private open(
    auth: OAuthProvider,
    signal: AbortSignal,
    life: AbortController,
  ): Promise<McpConnectResult> {
    const { runtime, clients } = this.host;
    const openedMs = runtime.time.monotonicMs();
    const { client = {} } = readOptions(this.row);
    const elicitation = this.host.elicitations.capability;
    return clients.connect({
      ...this.target(askOnce(auth, this), signal),
      client: { name: client.name ?? runtime.id.class, version: client.version ?? "1.0.0" },
      capabilities: {
        ...client.capabilities,
        ...(elicitation === undefined ? {} : { elicitation }),
      },
      onListChanged: () => void runtime.inBackground(() => this.changedLists.announced()),
      onClosed: (message) => {
        if (life.signal.aborted) return;
        this.host.emit("mcp:client:close", { url: this.row.server_url, state: "failed", error: message }); // prettier-ignore
        this.dropConnection();
        this.become("failed", message);
        this.comeBack(openedMs);
      },
      elicit: (request, cancelled) => this.host.elicitations.ask(request, this.id, cancelled),
    });
  }

  /** Connects again after a break. A server that breaks again and again is given up. */
  private comeBack(openedMs: number): void {
    const { runtime } = this.host;
    const { time } = runtime;
    this.breaks = time.monotonicMs() - openedMs > STABLE_MS ? 1 : this.breaks + 1;
    const retry = readRetry(this.row, this.host.runtime.log);
    if (this.breaks > retry.maxAttempts) return;
    const { signal } = this.life;
    const delayMs = retry.baseDelayMs + backoffMs(retry, this.breaks, time.random());
    time.after(delayMs, () => {
      if (!signal.aborted) void runtime.inBackground(() => this.establishWithRetry());
    });
  }

  private connected(
    result: McpConnectResult,
    auth: OAuthProvider | undefined,
  ): McpConnectionResult {
    const { emit } = this.host;
    const url = this.row.server_url;
    const clientId = auth?.clientId ?? null;
    if (result._tag === "Connected") {
      const { transport } = result.connection;
      this.connection = result.connection;
      this.storeAuth(null, clientId);
      this.become("connected");
      emit("mcp:client:connect", { url, transport, state: this.state });
      return { state: "connected" };
    }
    const transport = readOptions(this.row).transport?.type ?? "auto";
    if (result._tag === "Unauthorized" && auth?.authUrl !== undefined && !this.consented) {
      this.storeAuth(auth.authUrl, clientId);
      this.become("authenticating");
      return this.authenticating(auth.authUrl);
    }
    const error = errorText(
      result._tag === "Failed" ? result.message : this.consented ? STILL_REFUSED : whyRefused(auth),
    );
    this.become("failed", error);
    emit("mcp:client:connect", { url, transport, state: this.state, error });
    return { state: "failed", error };
  }

  /** Rule 2; undefined when there was no connection. */
  private dropConnection():
    { readonly transport: string; readonly done: Promise<void> } | undefined {
    const { connection } = this;
    this.life.abort();
    this.life = new AbortController();
    this.connection = undefined;
    this.discovery.leave();
    this.offer = NOTHING;
    return connection && { transport: connection.transport, done: connection.close() };
  }

  private async ask(connection: McpConnection, timeoutMs: number): Promise<Offer> {
    const { signal, free } = this.limited(timeoutMs);
    try {
      return await readOffer(connection, { timeout: timeoutMs, signal }, () => this.host.charsBeside(this)); // prettier-ignore
    } finally {
      free();
    }
  }
}

const isUnauthorized = (error: unknown): boolean =>
  error instanceof McpRequestFailed && error.reason === "Unauthorized";
