/**
 * Who may use a gateway before any agent hears of a request (`docs/guides/access.md`). Asked by `Gateway` for each request that
 * no verified webhook route takes, and by `routeRequest` where the module has no `fetch` of its own: one that has
 * decides about classes and origins itself.
 *
 * 1. **Host.** A gateway on a loopback address, and `agents dev` anywhere, answer the hosts that they serve (`ServedHosts`).
 * 2. **Signed classes.** A class with a verified webhook takes no other HTTP request, and its sockets are readonly, unless it
 *    says `http: "open"`. What is below such an agent, and such a class below another, counts as one.
 * 3. **Origin.** Pages of other origins reach neither signed classes nor, in `agents dev` or where origins are listed, any
 *    class. A request without `Origin` is no page's.
 */
import { matchAgentPath, routeAgentRequest } from "../../core/agent/routeAgentRequest.ts";
import { isUpgrade, readonlyUpgrade } from "../../core/agent/upgradeResponse.ts";
import type { HttpRequest, HttpResponse } from "../../core/http/HttpServer.ts";
import { ANY_ORIGIN, isSameOrigin } from "../../core/http/origins.ts";
import { hostNameOf, servesHost } from "../../core/http/servedHosts.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { namesSubAgent, parseSubAgentPath } from "../../core/subAgent/subAgentPaths.ts";
import type { GatewayConfig, GatewayModule } from "./GatewayServices.ts";
import { plain } from "./requests.ts";

const MISDIRECTED = plain(
  421,
  "Misdirected request: this server does not answer for the host that the request names. Name it with --public-url or in --allowed-hosts (docs/guides/access.md).\n",
);
const FOREIGN_ORIGIN =
  "Forbidden: pages of this Origin may not reach the agent. List the origin in allowedOrigins of the module's default export, or in --allowed-origins (docs/guides/access.md).\n";
const closedText = (className: string): string =>
  `Forbidden: ${className} takes signed webhooks, so other HTTP requests do not reach it. To open it, write static options = { http: "open" } in the class, or route in the module's own fetch (docs/guides/access.md).\n`;

/** A browser's `*` leaves this one header out. */
const CORS_HEADERS = "*, authorization";
const CORS_METHODS = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";

export class Access {
  private readonly config: Pick<GatewayConfig, "hosts" | "sameOrigin" | "allowedOrigins">;
  private readonly publicHost: ReadonlyArray<string>;
  private readonly module: () => GatewayModule;
  private readonly log: LogShape;
  /** What has been logged. Once is enough: else a caller could fill the log. */
  private readonly told = new Set<string>();

  constructor(given: {
    readonly config: Pick<GatewayConfig, "hosts" | "sameOrigin" | "allowedOrigins" | "publicUrl">;
    readonly module: () => GatewayModule;
    readonly log: LogShape;
  }) {
    const { publicUrl } = given.config;
    this.config = given.config;
    this.publicHost = publicUrl === undefined ? [] : [new URL(publicUrl).host];
    this.module = given.module;
    this.log = given.log;
  }

  /** Rule 1: the answer to a request for a host that is not served; undefined: it is. */
  refuseHost({ headers }: HttpRequest): HttpResponse | undefined {
    const { hosts } = this.config;
    const { host = [] } = headers;
    if (hosts === undefined) return undefined;
    // RFC 9112, 3.2: who sends two, or none that can be one, is broken.
    const isOne = host.length === 0 || (host.length === 1 && hostNameOf(host[0]!) !== undefined);
    if (!isOne) return plain(400, "Invalid request");
    if (servesHost(hosts, host[0])) return undefined;
    this.tell("host", "a request names a host that is not served", { host: host.join(", ") });
    return MISDIRECTED;
  }

  /** Rules 2 and 3 around `routeAgentRequest`, which this is for modules without a `fetch`. */
  async routeAgentRequest(request: Request): Promise<Response | null> {
    const { env, signed } = this.module();
    const route = matchAgentPath(new URL(request.url).pathname, env);
    if (route === undefined || route === "unknown") return routeAgentRequest(request, env);
    const { className } = route;
    const closed = signed.has(className) ? className : signedBelow(signed, request.url);
    const upgrade = isUpgrade(request);
    if (closed !== undefined && !upgrade) {
      this.tell(closed, "a request that is no webhook was refused", { class: closed });
      return forbidden(closedText(closed));
    }
    const origin = request.headers.get("origin");
    const from = origin === null ? "none" : this.placeOf(origin, request);
    const checks =
      closed !== undefined || this.config.sameOrigin === true || this.origins !== undefined;
    if (from === "foreign" && checks) {
      this.tell(`origin ${className}`, "a page of another origin was refused", { class: className, origin }); // prettier-ignore
      return forbidden(FOREIGN_ORIGIN);
    }
    if (upgrade) {
      const response = await routeAgentRequest(request, env);
      return closed !== undefined && response !== null ? readonlyUpgrade(response) : response;
    }
    if (from !== "listed") return routeAgentRequest(request, env);
    const response = await routeAgentRequest(request, env, { cors: corsFor(origin!) });
    response?.headers.append("vary", "origin");
    return response;
  }

  /** Of the module and the command line; undefined: neither says any. An empty list says that there are none. */
  private get origins(): ReadonlyArray<string> | undefined {
    const { allowedOrigins: own } = this.module();
    const { allowedOrigins: more } = this.config;
    return own === undefined ? more : [...own, ...(more ?? [])];
  }

  private placeOf(origin: string, request: Request): "own" | "listed" | "foreign" {
    const host = request.headers.get("host");
    if (isSameOrigin(origin, host === null ? this.publicHost : [host, ...this.publicHost]))
      return "own";
    const { origins = [] } = this;
    return origins.includes(origin) || origins.includes(ANY_ORIGIN) ? "listed" : "foreign";
  }

  private tell(what: string, message: string, fields: Readonly<Record<string, unknown>>): void {
    if (this.told.has(what)) return;
    this.told.add(what);
    this.log.warn(`${message}; the next ones are not logged (docs/guides/access.md)`, fields);
  }
}

/** The first of these classes that the path names below another agent. */
const signedBelow = (classes: ReadonlySet<string>, url: string): string | undefined =>
  classes.size > 0 && namesSubAgent(url)
    ? parseSubAgentPath(url, { knownClasses: [...classes] })?.childClass
    : undefined;

const forbidden = (text: string): Response =>
  new Response(text, { status: 403, headers: { "content-type": "text/plain;charset=UTF-8" } });

const corsFor = (origin: string): HeadersInit => ({
  "access-control-allow-origin": origin,
  "access-control-allow-methods": CORS_METHODS,
  "access-control-allow-headers": CORS_HEADERS,
  "access-control-max-age": "86400",
});
