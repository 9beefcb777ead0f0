/**
 * Finds the declared route of a request's path. Pure. Built once from a module's routes. The
 * gateway calls it for every request and checks the method itself (`allowsMethod`).
 *
 * 1. Segments match whole and case-sensitively. From left to right, a literal takes precedence over
 *    a parameter; where the literal leads to no route, the parameter beside it is tried.
 * 2. Segments are percent-decoded one by one, so `%2F` stays inside its segment. A path with an
 *    escape that is not UTF-8 matches nothing (404): guessing its meaning could choose a wrong
 *    agent.
 * 3. One trailing slash is ignored. An empty segment matches nothing.
 * 4. Two routes of the same shape are an error, so the order of declaration never matters.
 * 5. Two routes to one class whose senders have ids and no name are an error.
 */
import { InvalidWebhook, targetsOf, type WebhookRoute } from "./WebhookRoute.ts";

/** A route and the values of its parameters. */
export interface RouteMatch {
  readonly route: WebhookRoute;
  /** By parameter name, percent-decoded. The object has no prototype. */
  readonly params: Readonly<Record<string, string>>;
}

/** A segment of a route's pattern. */
export type PathSegment =
  | { readonly _tag: "Literal"; readonly text: string }
  | { readonly _tag: "Parameter"; readonly name: string };

interface Node {
  readonly literals: Map<string, Node>;
  parameter: Node | undefined;
  route: WebhookRoute | undefined;
  /** Parameter names of `route`, in path order. Two routes can name one position differently. */
  names: ReadonlyArray<string>;
}

const PARAMETER = /^:[A-Za-z_][A-Za-z0-9_]*$/;
const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze(Object.create(null));

/** Parses a route's pattern. Throws `InvalidWebhook` for one that can't match what it says. */
export function parsePathPattern(pattern: string): ReadonlyArray<PathSegment> {
  const wrong = (why: string) => new InvalidWebhook({ message: `webhook("${pattern}"): ${why}` });
  if (typeof pattern !== "string" || !pattern.startsWith("/"))
    throw wrong(`a path starts with "/"`);
  if (/[?#]/.test(pattern)) throw wrong("a path has no query and no fragment");
  const seen = new Set<string>();
  return split(pattern).map((segment): PathSegment => {
    if (segment === "") throw wrong("it has an empty segment");
    if (segment === "." || segment === "..") throw wrong(`"${segment}" is not a usable segment`);
    if (segment.startsWith(":")) {
      const name = segment.slice(1);
      if (!PARAMETER.test(segment))
        throw wrong(`"${segment}" is not a parameter: write ":" and an identifier`);
      if (seen.has(name)) throw wrong(`the parameter ":${name}" is repeated`);
      seen.add(name);
      return { _tag: "Parameter", name };
    }
    if (segment.includes("*"))
      throw wrong(`"*" is not supported: name each segment, as in ":customer"`);
    const text = decode(segment);
    if (text === undefined) throw wrong(`"${segment}" has a broken percent-escape`);
    return { _tag: "Literal", text };
  });
}

/** The routes of one module. */
export class RouteTable {
  private readonly root = emptyNode();
  /** Paths without parameters, in their usual spelling: one lookup. */
  private readonly literal = new Map<string, RouteMatch>();

  /** Throws `InvalidWebhook` for rules 4 and 5. */
  constructor(routes: ReadonlyArray<WebhookRoute>) {
    refuseSharedIds(routes);
    for (const route of routes) {
      const segments = parsePathPattern(route.path);
      let node = this.root;
      const names: string[] = [];
      for (const segment of segments) {
        if (segment._tag === "Parameter") names.push(segment.name);
        node = child(node, segment);
      }
      if (node.route !== undefined)
        throw new InvalidWebhook({
          message: `webhook("${route.path}") and webhook("${node.route.path}") match the same requests: keep one`,
        });
      node.route = route;
      node.names = names;
      if (names.length === 0) this.literal.set(route.path, { route, params: NO_PARAMS });
    }
  }

  /** The route of a request target, with or without a query. Undefined: no declared route. */
  match(target: string): RouteMatch | undefined {
    const path = pathOf(target);
    const known = this.literal.get(path);
    if (known !== undefined) return known;
    if (!path.startsWith("/")) return undefined;
    const segments: string[] = [];
    for (const raw of split(path)) {
      const segment = decode(raw);
      if (segment === undefined || segment === "") return undefined;
      segments.push(segment);
    }
    return find(this.root, segments, 0, []);
  }
}

/** Rule 5. */
function refuseSharedIds(routes: ReadonlyArray<WebhookRoute>): void {
  const paths = new Map<string, string>(); // by provider and class
  for (const route of routes.filter(({ verifier }) => verifier.namesNoSender === true))
    for (const agent of new Set(targetsOf(route, undefined).map((target) => target.agent))) {
      const { provider } = route.verifier;
      const key = `${provider} ${agent}`;
      const other = paths.get(key);
      if (other !== undefined)
        throw new InvalidWebhook({
          message:
            `webhook("${other}") and webhook("${route.path}"): both senders of ${agent} are "${provider}", so that an id of one would be taken for the same id of the other: ` +
            `name them, as in ${provider}({ provider: "shop", … })`,
        });
      paths.set(key, route.path);
    }
}

/** Visits each node of the tree at most once, so the number of routes bounds its time. */
function find(
  node: Node,
  segments: ReadonlyArray<string>,
  at: number,
  values: ReadonlyArray<string>,
): RouteMatch | undefined {
  const segment = segments[at];
  if (segment === undefined)
    return node.route && { route: node.route, params: zip(node.names, values) };
  const literal = node.literals.get(segment);
  const found = literal && find(literal, segments, at + 1, values);
  if (found !== undefined || node.parameter === undefined) return found;
  return find(node.parameter, segments, at + 1, [...values, segment]);
}

function zip(names: ReadonlyArray<string>, values: ReadonlyArray<string>): Record<string, string> {
  const params: Record<string, string> = Object.create(null);
  for (const [i, name] of names.entries()) params[name] = values[i]!;
  return params;
}

function child(node: Node, segment: PathSegment): Node {
  if (segment._tag === "Parameter") return (node.parameter ??= emptyNode());
  let next = node.literals.get(segment.text);
  if (next === undefined) node.literals.set(segment.text, (next = emptyNode()));
  return next;
}

function emptyNode(): Node {
  return { literals: new Map(), parameter: undefined, route: undefined, names: [] };
}

function pathOf(target: string): string {
  const end = target.search(/[?#]/);
  return end === -1 ? target : target.slice(0, end);
}

function split(path: string): string[] {
  if (path === "/") return [];
  return (path.endsWith("/") ? path.slice(1, -1) : path.slice(1)).split("/");
}

function decode(segment: string): string | undefined {
  if (!segment.includes("%")) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    return undefined;
  }
}
