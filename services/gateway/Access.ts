/**
 * Access control in front of all agents (`docs/guides/access.md`): decides which requests a gateway
 * refuses before any agent receives them. `Gateway` calls it for each request that no verified
 * webhook route matches. `routeRequest` calls it if the module has no `fetch` of its own; a module
 * with a `fetch` decides about classes and origins itself.
 *
 * 1. **Host.** A gateway on a loopback address, and `agents dev` on any address, answer only
 *    requests for the hosts that they serve (`ServedHosts`).
 * 2. **Signed classes.** A class with a verified webhook receives no other HTTP request, and its
 *    sockets are readonly, unless the class sets `http: "open"`. The agents below an agent of such
 *    a class count as signed, and so does such a class below another agent.
 * 3. **Origin.** Pages of other origins reach no signed class. In `agents dev`, and if origins are
 *    listed, they reach no class at all. Links of other pages do: whoever follows one asks by GET
 *    (`pageOrigin`).
 */
import { textResponse } from "../../core/http/responseHead.ts";
import type { HeaderPairs } from "../../schemas/bus/message.ts";
import { nearest } from "../../core/errors/nearest.ts";
import {
  matchAgentPath,
  pathClasses,
  routeAgentRequest,
} from "../../core/namespace/routeAgentRequest.ts";
import { isUpgrade, readonlyUpgrade } from "../../core/socket/upgradeRequest.ts";
import type { HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import { ANY_ORIGIN, isSameOrigin, pageOrigin } from "../../core/http/origins.ts";
import { servesHost, type ServedHosts } from "../../core/http/servedHosts.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { namesSubAgent, parseSubAgentPath } from "../../core/namespace/subAgentPaths.ts";

const MISDIRECTED = textResponse(
  421,
  "Misdirected request: this server does not serve the request's host. Add the host with --public-url or --allowed-hosts (docs/guides/access.md).\n",
);
const FOREIGN_ORIGIN =
  "Forbidden: pages of this Origin may not reach the agent. List the origin in allowedOrigins of the module's default export, or in --allowed-origins (docs/guides/access.md).\n";
const closedText = (className: string): string =>
  `Forbidden: ${className} receives signed webhooks, so other HTTP requests do not reach it. To open it, write static options = { http: "open" } in the class, or route in the module's own fetch (docs/guides/access.md).\n`;

/** Enough for the slips of people; scanners try more names than anybody wants to read. */
const UNKNOWN_MAX = 20;
/** No class is longer. */
const UNKNOWN_LENGTH_MAX = 100;

/** For browsers, `*` does not include the `authorization` header. */
const CORS_HEADERS = "*, authorization";
const CORS_METHODS = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";

export interface AccessConfig {
  /** Scheme and authority that callers use: `https://hooks.example.com`. Default: the request's. */
  readonly publicUrl?: string | undefined;
  /** Values of `Host` that are answered. Undefined: all. */
  readonly hosts?: ServedHosts | undefined;
  /** Rule 3 protects all classes, not only signed ones (`agents dev`). */
  readonly sameOrigin?: boolean;
  /** Origins whose pages may reach agents, in addition to the module's. */
  readonly allowedOrigins?: ReadonlyArray<string> | undefined;
}

export interface AccessModule {
  /** Bindings (agent namespaces by class name) and secrets. */
  readonly env: Readonly<Record<string, unknown>>;
  /** Classes that default routing closes to all but verified webhooks and readonly sockets. */
  readonly signed: ReadonlySet<string>;
  /** Origins whose pages reach agents by the default routing. Undefined: `AccessConfig` decides. */
  readonly allowedOrigins?: ReadonlyArray<string> | undefined;
}

interface AccessOptions {
  readonly config: AccessConfig;
  readonly module: () => AccessModule;
  readonly log: LogShape;
}

export class Access {
  private readonly config: AccessConfig;
  private readonly publicHost: ReadonlyArray<string>;
  private readonly module: () => AccessModule;
  private readonly log: LogShape;
  /** Names of classes that `noteUnknownClass` has logged. */
  private readonly unknown = new Set<string>();
  /** Subjects that have been logged. Each is logged once, so that no caller can fill the log. */
  private readonly logged = new Set<string>();

  constructor({ config, module, log }: AccessOptions) {
    const { publicUrl } = config;
    this.config = config;
    this.publicHost = publicUrl === undefined ? [] : [new URL(publicUrl).host];
    this.module = module;
    this.log = log;
  }

  /** Rule 1: returns the refusal of a request for a host that is not served, or undefined. */
  refuseHost({ headers }: HttpRequest): HttpResponse | undefined {
    const { hosts } = this.config;
    if (hosts === undefined) return undefined;
    // At most one, and a valid host, as the server has checked (`namesResource`).
    const [host] = headers["host"] ?? [];
    if (host === "") return textResponse(400, "Invalid request");
    if (servesHost(hosts, host)) return undefined;
    this.warnOnce("host", "a request's host is not served", { host });
    return MISDIRECTED;
  }

  /**
   * Applies rules 2 and 3, then routes as core's `routeAgentRequest` does. Resolves to null if the
   * path names no agent. Rejects as that function does.
   */
  async routeAgentRequest(request: Request): Promise<Response | null> {
    const { env, signed } = this.module();
    const route = matchAgentPath(new URL(request.url).pathname, env);
    if (route === undefined || route === "unknown") return routeAgentRequest(request, env);
    const { className } = route.namespace; // a class may be bound under several names
    const closed = signed.has(className) ? className : signedBelow(signed, request.url);
    const upgrade = isUpgrade(request);
    if (closed !== undefined && !upgrade) {
      this.warnOnce(closed, "a request that is not a webhook was refused", { class: closed });
      const { headers } = request;
      const readable = this.refusalHeaders(headers.get("origin"), headers.get("host"));
      return forbidden(closedText(closed), readable);
    }
    const origin = pageOrigin(request.headers);
    const from = origin === undefined ? "none" : this.classify(origin, request.headers.get("host"));
    const checks =
      closed !== undefined || this.config.sameOrigin === true || this.origins !== undefined;
    if (from === "foreign" && checks) {
      this.warnOnce(`origin ${className}`, "a page of another origin was refused", {
        class: className,
        origin,
      });
      return forbidden(FOREIGN_ORIGIN);
    }
    if (upgrade) {
      if (closed !== undefined) readonlyUpgrade(request);
      return routeAgentRequest(request, env);
    }
    if (from !== "listed") return routeAgentRequest(request, env);
    const asked = request.headers.get("access-control-request-headers");
    const response = await routeAgentRequest(request, env, { cors: this.corsFor(origin!, asked) });
    response?.headers.append("vary", "origin");
    return response;
  }

  /**
   * The headers that let a page of a listed origin read an answer of the gateway itself, and
   * `vary`, which is to be appended. Empty for other callers.
   */
  refusalHeaders(origin?: string | null, host?: string | null): HeaderPairs {
    if (origin == null || this.classify(origin, host) !== "listed") return [];
    const cors = Object.entries(this.corsFor(origin));
    return [...cors, ["access-control-expose-headers", "retry-after"], ["vary", "origin"]];
  }

  /**
   * Logs what a request asked for that was answered 400, if its path names a class that the module
   * does not have. The caller learns nothing about the module.
   */
  noteUnknownClass({ url }: Pick<Request, "url">): void {
    const { env } = this.module();
    const { pathname } = new URL(url);
    if (this.unknown.size === UNKNOWN_MAX || matchAgentPath(pathname, env) !== "unknown") return;
    const asked = pathname.split("/").find((part) => part !== "" && part !== "agents") ?? "";
    if (this.unknown.has(asked) || asked.length > UNKNOWN_LENGTH_MAX) return;
    this.unknown.add(asked);
    const classes = pathClasses(env);
    const meant = nearest(asked, classes);
    this.log.warn("a request names a class that the module does not have", {
      asked,
      ...(meant === undefined ? { classes: classes.join(", ") } : { meant }),
    });
  }

  /**
   * The origins that the module and the command line list. Undefined: neither has a list. An empty
   * list allows no other origin.
   */
  private get origins(): ReadonlyArray<string> | undefined {
    const { allowedOrigins: own } = this.module();
    const { allowedOrigins: more } = this.config;
    return own === undefined ? more : [...own, ...(more ?? [])];
  }

  private classify(origin: string, host?: string | null): "own" | "listed" | "foreign" {
    if (isSameOrigin(origin, host == null ? this.publicHost : [host, ...this.publicHost]))
      return "own";
    const { origins = [] } = this;
    return origins.includes(origin) || origins.includes(ANY_ORIGIN) ? "listed" : "foreign";
  }

  /**
   * `asked`: the headers of which a preflight request asks. A request with cookies needs their
   * names, and an origin that is listed itself: those that only `*` allows send none.
   */
  private corsFor(origin: string, asked: string | null = null): Readonly<Record<string, string>> {
    return {
      "access-control-allow-origin": origin,
      "access-control-allow-methods": CORS_METHODS,
      "access-control-allow-headers": asked ?? CORS_HEADERS,
      "access-control-max-age": "86400",
      ...(this.origins?.includes(origin) ? { "access-control-allow-credentials": "true" } : {}),
    };
  }

  private warnOnce(subject: string, message: string, fields: LogFields): void {
    if (this.logged.has(subject)) return;
    this.logged.add(subject);
    this.log.warn(`${message}; further ones are not logged (docs/guides/access.md)`, fields);
  }
}

type LogFields = Readonly<Record<string, unknown>>;

/** Returns the first of these classes that the path names below another agent. */
const signedBelow = (classes: ReadonlySet<string>, url: string): string | undefined =>
  classes.size > 0 && namesSubAgent(url)
    ? parseSubAgentPath(url, { knownClasses: [...classes] })?.childClass
    : undefined;

const forbidden = (text: string, headers: HeaderPairs = []): Response =>
  new Response(text, {
    status: 403,
    headers: [["content-type", "text/plain;charset=UTF-8"], ...headers] as [string, string][],
  });
