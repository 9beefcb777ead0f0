/**
 * Keeps the data of OAuth with one MCP server in the agent's own storage (`protocol.md` §9): the
 * client's registration, tokens, the PKCE verifier, the metadata of the authorization server, and
 * the states of authorizations in progress.
 *
 * 1. A state is used once and for ten minutes: it is removed, and that is stored, before the code
 *    that came with it is exchanged. Without a valid one a callback changes nothing.
 * 2. Each authorization has its own verifier, under its state's nonce: a second one begun
 *    meanwhile does not spoil the first.
 * 3. A registration is for the addresses that it names: an authorization that comes back to another
 *    one, such as a new domain of the agent, begins with a registration of its own.
 *
 * Driven by the protocol's client (the shape is the one that the official SDK asks for).
 */
import type { AgentStorage } from "../database/AgentStorage.ts";
import type { TimeShape } from "../time/Time.ts";
import { URL_CHARS_MAX } from "./checkRegistration.ts";

/** Long enough to log in and consent; a link found later is of no use. */
export const STATE_TTL_MS = 600_000;
/** Pending authorizations with one server; the oldest are forgotten. */
const STATES_MAX = 16;
/** UTF-16 units of JSON, ten times what large authorization servers answer. */
const ANSWER_CHARS_MAX = 262_144;

type Json = Readonly<Record<string, unknown>>;

/** The result of an overridden `createMcpOAuthProvider`. */
export interface OAuthProvider {
  /** Where the user has to go; set when the server asked for authorization. */
  authUrl: string | undefined;
  /** The client's id at the authorization server; undefined before registration. */
  clientId: string | undefined;
  /** The MCP server that it is for; set before anything is read. */
  serverId: string | undefined;
  /** Where the user comes back to; undefined where nothing reaches the agent. */
  readonly redirectUrl: string | undefined;
  /** The client's metadata in a registration (RFC 7591). */
  readonly clientMetadata: Json;
  /** The address of that metadata, instead of a registration. */
  readonly clientMetadataUrl?: string;
  /** Stores and returns the state of a new authorization. */
  state(): Promise<string>;
  /** Whether a state is one of ours, unused, and younger than ten minutes. */
  checkState(state: string): Promise<StateCheck>;
  /** Uses a state up: it is valid once. */
  consumeState(state: string): Promise<void>;
  /**
   * The stored registration; undefined without one, and for one that is for another `redirectUrl`
   * unless it `renews` tokens, for which no user comes back. `issuer` is the authorization server.
   */
  clientInformation(use?: {
    readonly issuer?: string;
    readonly renews?: boolean;
  }): Promise<Json | undefined>;
  /** Stores the registration. */
  saveClientInformation(information: Json): Promise<void>;
  /** The stored tokens; undefined without any. */
  tokens(): Promise<Json | undefined>;
  /** Stores the tokens. */
  saveTokens(tokens: Json): Promise<void>;
  /**
   * Receives the address that the user has to open. Throws `TypeError` if it is not http(s), and
   * `RangeError` if it is too long.
   */
  redirectToAuthorization(url: URL): void | Promise<void>;
  /** Stores the PKCE verifier of the authorization. */
  saveCodeVerifier(verifier: string): Promise<void>;
  /** The stored PKCE verifier. Rejects without one. */
  codeVerifier(): Promise<string>;
  /** Deletes the PKCE verifier. */
  deleteCodeVerifier(): Promise<void>;
  /** Deletes what the server does not accept any more. */
  invalidateCredentials(scope: CredentialScope): Promise<void>;
  /** Stores the discovered metadata of the authorization server. */
  saveDiscoveryState(state: Json): Promise<void>;
  /** The discovered metadata of the authorization server; undefined before. */
  discoveryState(): Promise<Json | undefined>;
}

type CredentialScope = "all" | "client" | "tokens" | "verifier" | "discovery";

type StateCheck =
  | { readonly valid: true; readonly serverId: string }
  | { readonly valid: false; readonly error: string };

interface StoredState {
  readonly serverId: string;
  readonly createdMs: number;
}

/** Keeps all in the agent's own storage: what `createMcpOAuthProvider` returns by default. */
export class StoredOAuthProvider implements OAuthProvider {
  authUrl: string | undefined;
  clientId: string | undefined;
  serverId: string | undefined;
  readonly redirectUrl: string | undefined;
  private readonly clientName: string;
  private readonly time: TimeShape;
  /** Names the verifier of the authorization that is under way. */
  private nonce: string | undefined;

  /** `callbackUrl` empty: users can't be redirected to the agent, and authorization fails. */
  constructor(
    private readonly storage: AgentStorage,
    options: {
      readonly clientName: string;
      readonly callbackUrl: string;
      readonly time: TimeShape;
    },
  ) {
    this.clientName = options.clientName;
    this.redirectUrl = options.callbackUrl === "" ? undefined : options.callbackUrl;
    this.time = options.time;
  }

  get clientMetadata(): Json {
    return {
      client_name: this.clientName,
      redirect_uris: this.redirectUrl === undefined ? [] : [this.redirectUrl],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
      token_endpoint_auth_method: "none",
    };
  }

  async state(): Promise<string> {
    const prefix = this.key("state/");
    const known = [...(await this.storage.list<StoredState>({ prefix }))].toSorted(
      ([, a], [, b]) => b.createdMs - a.createdMs,
    );
    const stale = known.filter(([, one], i) => i >= STATES_MAX - 1 || this.expired(one));
    if (stale.length > 0) await this.storage.delete(stale.map(([key]) => key));
    const nonce = this.time.id();
    const stored: StoredState = { serverId: this.server, createdMs: this.time.nowMs() };
    await this.storage.put(prefix + nonce, stored);
    this.nonce = nonce;
    return `${nonce}.${this.server}`;
  }

  async checkState(state: string): Promise<StateCheck> {
    const parsed = parseState(state);
    if (parsed === undefined || parsed.serverId !== this.server)
      return { valid: false, error: "The state is not one of ours" };
    const stored = await this.storage.get<StoredState>(this.key(`state/${parsed.nonce}`));
    if (stored === undefined)
      return { valid: false, error: "The state is not known, or was used already" };
    if (this.expired(stored)) return { valid: false, error: "The state has expired" };
    return { valid: true, serverId: parsed.serverId };
  }

  /** Rule 1. The next exchange belongs to this state. */
  async consumeState(state: string): Promise<void> {
    const parsed = parseState(state);
    if (parsed === undefined) return;
    await this.storage.delete(this.key(`state/${parsed.nonce}`));
    this.nonce = parsed.nonce;
  }

  async clientInformation({ renews = false }: { readonly renews?: boolean } = {}): Promise<
    Json | undefined
  > {
    if (this.clientId === undefined) return undefined;
    const known = await this.storage.get<Json>(this.ofClient("client_info/"));
    const urls = known?.["redirect_uris"];
    const isElsewhere = Array.isArray(urls) && !urls.includes(this.redirectUrl);
    return isElsewhere && !renews ? undefined : known; // rule 3
  }
  async saveClientInformation(information: Json): Promise<void> {
    checkSize("registration", information);
    this.clientId = String(information["client_id"]);
    await this.storage.put(this.ofClient("client_info/"), information);
  }

  async tokens(): Promise<Json | undefined> {
    return this.clientId === undefined ? undefined : this.storage.get(this.ofClient("token"));
  }
  async saveTokens(tokens: Json): Promise<void> {
    checkSize("token", tokens);
    await this.storage.put(this.ofClient("token"), tokens);
  }

  redirectToAuthorization(url: URL): void {
    // Shown to users as a link: an address that a browser would execute is refused.
    if (url.protocol !== "https:" && url.protocol !== "http:")
      throw new TypeError(
        `The authorization server's address is not an http or https URL: ${url.protocol}`,
      );
    if (url.href.length > URL_CHARS_MAX)
      throw new RangeError(
        `The authorization server's address has more than ${URL_CHARS_MAX} characters`,
      );
    this.authUrl = url.href;
  }

  async saveCodeVerifier(verifier: string): Promise<void> {
    await this.storage.put(this.verifierKey, verifier);
  }
  async codeVerifier(): Promise<string> {
    const verifier = await this.storage.get<string>(this.verifierKey);
    if (verifier === undefined)
      throw new Error(
        `The authorization of the MCP server "${this.server}" was completed or abandoned before: begin it again`,
      );
    return verifier;
  }
  async deleteCodeVerifier(): Promise<void> {
    await this.storage.delete(this.verifierKey);
  }

  async invalidateCredentials(scope: CredentialScope): Promise<void> {
    const all = scope === "all";
    if (this.clientId !== undefined) {
      if (all || scope === "tokens") await this.storage.delete(this.ofClient("token"));
      if (all || scope === "verifier") await this.deleteCodeVerifier();
      if (all || scope === "client") await this.storage.delete(this.ofClient("client_info/"));
    }
    if (all || scope === "client") this.clientId = undefined;
    if (all || scope === "discovery") await this.storage.delete(this.key("oauth_discovery"));
  }

  async saveDiscoveryState(state: Json): Promise<void> {
    checkSize("metadata", state);
    await this.storage.put(this.key("oauth_discovery"), state);
  }
  discoveryState(): Promise<Json | undefined> {
    return this.storage.get(this.key("oauth_discovery"));
  }

  private get server(): string {
    if (this.serverId === undefined) throw new Error("The OAuth provider has no server id");
    return this.serverId;
  }
  private get verifierKey(): string {
    return this.ofClient(`code_verifier/${this.nonce ?? ""}`);
  }
  private expired(stored: StoredState): boolean {
    return this.time.nowMs() - stored.createdMs > STATE_TTL_MS;
  }
  private key(rest: string): string {
    return oauthPrefix(this.clientName, this.server) + rest;
  }
  private ofClient(rest: string): string {
    return this.key(`${this.clientId ?? ""}/${rest}`);
  }
}

/** The agent's journal keeps what an authorization server answers. Throws `RangeError`. */
function checkSize(what: string, answer: Json): void {
  const { length } = JSON.stringify(answer);
  if (length > ANSWER_CHARS_MAX)
    throw new RangeError(
      `The authorization server's ${what} has ${length} characters, and the limit is ${ANSWER_CHARS_MAX}`,
    );
}

/** Everything that OAuth with this server has stored begins with it. */
const oauthPrefix = (clientName: string, serverId: string): string => `/${clientName}/${serverId}/`;

/** Deletes everything that OAuth with this server has stored. */
export async function forgetOAuth(
  storage: AgentStorage,
  clientName: string,
  serverId: string,
): Promise<void> {
  const stored = await storage.list({ prefix: oauthPrefix(clientName, serverId) });
  if (stored.size > 0) await storage.delete([...stored.keys()]);
}

/** The server has another id. An authorization that is under way starts again. */
export async function moveOAuth(
  storage: AgentStorage,
  clientName: string,
  { from, to }: { readonly from: string; readonly to: string },
): Promise<void> {
  const prefix = oauthPrefix(clientName, from);
  for (const [key, value] of await storage.list({ prefix }))
    // A state names its server.
    if (!key.startsWith(`${prefix}state/`))
      await storage.put(oauthPrefix(clientName, to) + key.slice(prefix.length), value);
  await forgetOAuth(storage, clientName, from);
}

/** `{nonce}.{serverId}`; nonces have no dot. */
export function parseState(state: string | null): { nonce: string; serverId: string } | undefined {
  const dot = state?.indexOf(".") ?? -1;
  if (state === null || dot < 1 || dot === state.length - 1) return undefined;
  return { nonce: state.slice(0, dot), serverId: state.slice(dot + 1) };
}
