/**
 * Sub-agents in URLs: `/agents/{agent}/{name}/sub/{class}/{name}[/sub/…][/…]` (`protocol.md` §1),
 * parsed and built. A root's name is not encoded, a sub-agent's is URI-encoded. Pure.
 */
import { camelCaseToKebabCase } from "../../schemas/kebabCase.ts";
import type { AgentPathStep } from "../../schemas/AgentPath.ts";

/** The segment between an agent and its sub-agent. */
export const SUB_PREFIX = "sub";

/** Whether the URL may name a sub-agent: a quick check, since most URLs name none. */
export const namesSubAgent = (url: string): boolean => url.includes(`/${SUB_PREFIX}/`);

/** The most sub-agents that a URL may name: each is asked in turn, and created. */
export const SUB_AGENTS_MAX = 64;

/** Whether a URL's path names more than `SUB_AGENTS_MAX` sub-agents, one below the other. */
export function isTooDeep(url: string): boolean {
  if (!namesSubAgent(url)) return false;
  const segments = new URL(url).pathname.split("/").filter((segment) => segment !== "");
  let named = 0;
  // A class and a name follow, which may be "sub", too.
  for (let i = 0; i + 2 < segments.length; i++)
    if (segments[i] === SUB_PREFIX) {
      named++;
      i += 2;
    }
  return named > SUB_AGENTS_MAX;
}

/** The first sub-agent that a URL's path names. */
export interface SubAgentPathMatch {
  /** As the module exports it. */
  readonly childClass: string;
  readonly childName: string;
  /** The path that the child sees. It begins with `/`, and may name a sub-agent of the child. */
  readonly remainingPath: string;
}

/**
 * The first `/sub/{class}/{name}` of a URL's path whose class is among `knownClasses` (default: any
 * class) and whose name can be decoded; null if there is none.
 */
export function parseSubAgentPath(
  url: string,
  options: { readonly knownClasses?: readonly string[] } = {},
): SubAgentPathMatch | null {
  const segments = new URL(url).pathname.split("/").filter((segment) => segment !== "");
  for (let i = 0; i + 2 < segments.length; i++) {
    if (segments[i] !== SUB_PREFIX) continue;
    const childClass = classNameOf(segments[i + 1]!, options.knownClasses);
    const childName = decoded(segments[i + 2]!);
    if (childClass === undefined || childName === undefined) continue;
    return { childClass, childName, remainingPath: `/${segments.slice(i + 3).join("/")}` };
  }
  return null;
}

function classNameOf(segment: string, known?: readonly string[]): string | undefined {
  if (known !== undefined)
    return known.find((className) => camelCaseToKebabCase(className) === segment);
  return segment
    .split("-")
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join("");
}

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}

/** Options of `buildAgentPath`. */
export interface BuildAgentPathOptions {
  /** As in `routeAgentRequest`. Default `agents`. */
  readonly prefix?: string;
  /** The path after the agent. */
  readonly leafPath?: string;
  /** The binding of the root's class, if it is not named after the class. */
  readonly rootBinding?: string;
}

/** The path of an agent's URL, from its `selfPath`. Throws if no URL can have that path. */
export function buildAgentPath(
  path: ReadonlyArray<AgentPathStep>,
  { prefix = "agents", leafPath = "", rootBinding }: BuildAgentPathOptions = {},
): string {
  const [root, ...below] = path;
  if (root === undefined) throw new Error("Agent path must contain at least one step.");
  const steps = below.flatMap(({ className, name }) => [
    SUB_PREFIX,
    classSegment(className),
    encodeURIComponent(checkedName(name)),
  ]);
  const whole = ["", ...prefixSegments(prefix), classSegment(rootBinding ?? root.className), rootSegment(root.name), ...steps].join("/"); // prettier-ignore
  return whole + leafOf(leafPath);
}

/** `buildAgentPath` after an origin: http, https, ws or wss, and nothing after the port. */
export function buildAgentUrl(
  origin: string | URL,
  path: ReadonlyArray<AgentPathStep>,
  options: BuildAgentPathOptions = {},
): URL {
  const text = String(origin);
  const base = URL.canParse(text) ? new URL(text) : undefined;
  if (base === undefined || !isBareOrigin(base))
    throw new Error(
      `Invalid Agent URL origin ${JSON.stringify(text)}. Pass an HTTP(S) or WS(S) origin without credentials, a pathname, query, or fragment.`,
    );
  return new URL(buildAgentPath(path, options), base);
}

const isBareOrigin = (url: URL): boolean =>
  /^(?:https?|wss?):$/.test(url.protocol) &&
  url.username + url.password + url.search + url.hash === "" &&
  url.pathname === "/";

function prefixSegments(prefix: string): string[] {
  const segments = prefix.split("/").filter((segment) => segment !== "");
  if (segments.includes(SUB_PREFIX))
    throw new Error(`Cannot build an Agent path with the prefix "${prefix}": "sub" is reserved.`);
  return segments;
}

function classSegment(className: string): string {
  const segment = camelCaseToKebabCase(className);
  if (segment === SUB_PREFIX || !/^[\w$-]+$/.test(segment))
    throw new Error(
      `Cannot build an Agent path for the class "${className}": ${segment === SUB_PREFIX ? `"sub" is reserved` : "it is not a class name"}.`,
    );
  return segment;
}

/** Whether a URL can name this root agent, whose name is not encoded. */
export const isRoutableRoot = (name: string): boolean =>
  name !== SUB_PREFIX && name !== "" && !name.includes("/") && standsAsItIs(name);

function rootSegment(name: string): string {
  if (isRoutableRoot(name)) return name;
  const why = name === SUB_PREFIX ? `"sub" is reserved` : "it is not externally routable";
  throw new Error(
    `Cannot build an Agent path for root Agent name ${JSON.stringify(name)}: ${why}.`,
  );
}

function standsAsItIs(segment: string): boolean {
  const path = `/${segment}/`;
  return new URL(path, "http://any").pathname === path;
}

/** Refuses `.` and `..`, which no encoding escapes and which URLs remove. */
function checkedName(name: string): string {
  if (name !== "" && name !== "." && name !== "..") return name;
  throw new Error(`Cannot build an Agent path for the sub-agent name ${JSON.stringify(name)}.`);
}

function leafOf(leafPath: string): string {
  if (/[?#]/.test(leafPath))
    throw new Error(
      `Invalid leafPath "${leafPath}": a path only; set query and fragment on the URL.`,
    );
  return leafPath === "" || leafPath.startsWith("/") ? leafPath : `/${leafPath}`;
}
