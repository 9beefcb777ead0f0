/**
 * The page's requests to the console, with its token.
 *
 * The token arrives in the URL's fragment, which browsers do not send. It is kept in the session
 * storage of the tab and of this origin, port included, and removed from the address bar before the
 * first request.
 */

const KEY = "agents_console_token";

let token = sessionStorage.getItem(KEY);
const watchers = new Set<() => void>();

export const currentToken = (): string | null => token;
export const watchToken = (watcher: () => void): (() => void) => {
  watchers.add(watcher);
  return () => void watchers.delete(watcher);
};

export function useToken(given: string | null): void {
  token = given === null || given === "" ? null : given;
  if (token === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, token);
  for (const watcher of watchers) watcher();
}

/** Removes the token from the address bar. */
export function takeToken(): void {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  history.replaceState(null, "", location.pathname);
  useToken(given);
}

const request = async (path: string, options: RequestInit): Promise<Response> => {
  if (token === null) throw new Error("The console's token is missing.");
  const used = token;
  const headers = { authorization: `Bearer ${used}` };
  const response = await fetch(`/api/${asked(path)}`, { ...options, headers });
  if (response.status === 401 && token === used) useToken(null);
  return response;
};

/** The console's answer to a wrong request: the same request would be refused again. */
export class Refusal extends Error {}

/** Rejects with the console's error text. */
export async function ask<A>(path: string, options: RequestInit = {}): Promise<A> {
  const response = await request(path, options);
  const text = await response.text();
  if (response.ok) return JSON.parse(text) as A;
  const message = errorOf(text) || response.statusText;
  throw response.status < 500 ? new Refusal(message) : new Error(message);
}

function errorOf(text: string): string {
  try {
    return (JSON.parse(text) as { readonly error?: string }).error ?? text;
  } catch {
    return text.trim();
  }
}

export const act = <A>(path: string): Promise<A> => ask<A>(path, { method: "POST" });

/** One line of the console's news. */
export interface News {
  /** Agents that had events. Empty: any agent may have had some. */
  readonly agents?: ReadonlyArray<readonly [className: string, name: string, seq: number]>;
  readonly deliveries?: ReadonlyArray<unknown>;
  readonly connections?: true;
  readonly overview?: unknown;
  /** The console's broker does not answer. */
  readonly unreachable?: true;
}

/** Calls `tell` for each line until `signal` fires. Rejects when the connection ends. */
export async function followNews(
  path: string,
  tell: (news: News) => void,
  signal: AbortSignal,
): Promise<void> {
  const response = await request(path, { signal });
  if (!response.ok || response.body === null) throw new Error(response.statusText);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new Error("The console closed the connection.");
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) tell(JSON.parse(line) as News);
  }
}

/** A path under `/api` or in the page, with the non-empty fields of `given` as its query. */
export function withQuery(
  path: string,
  given: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(given))
    if (value !== undefined && value !== "" && value !== false) query.set(name, String(value));
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** A browser removes the parts `.` and `..` of a URL, escaped or not: the query has such a name. */
function asked(path: string): string {
  const [place = "", query] = path.split("?", 2);
  const parts = place.split("/");
  const name = parts[2];
  if (parts[0] !== "agents" || (name !== "." && name !== "..")) return path;
  return `${parts.with(2, "-").join("/")}?${query === undefined ? "" : `${query}&`}name=${name}`;
}

export interface AgentName {
  readonly class: string;
  readonly name: string;
}

/** The path of an agent, below `/api` as in the page. */
export const agentPath = (agent: AgentName): string =>
  `agents/${encodeURIComponent(agent.class)}/${encodeURIComponent(agent.name)}`;
