/**
 * The operator's page and API: deliveries, the agents that exist, their history turn by turn, their
 * state, rows and schedules at any turn, the turns that wrote a field, dead letters, and hosts. The
 * console reads the broker and does not disturb agents; `NewsStreams` sends news to open pages.
 *
 * 1. Nothing but the page is served without the token, and the page holds no data: it requests all
 *    data from the API.
 * 2. Only POST requests change anything or run code. A POST from another site's page is refused;
 *    every other one is logged, with the address it came from.
 * 3. The page loads nothing from elsewhere, runs only its own script, and can't be framed.
 * 4. On a loopback address only loopback names and the configured public host are accepted as Host.
 *    On any other address the Host is checked where a public host is configured.
 */
import { randomBytes } from "node:crypto";
import { defined } from "../../core/collections/defined.ts";
import { BrokerUnavailable } from "../../core/bus/Bus.ts";
import type {
  Exchange,
  HttpHandlers,
  HttpRequest,
  HttpResponse,
} from "../../core/http/HttpServer.ts";
import type { LogShape } from "../../core/telemetry/Log.ts";
import { ConsoleRefusal, type ConsoleSource } from "../../core/console/ConsoleSource.ts";
import { isLoopbackHost, servesHost } from "../../core/http/servedHosts.ts";
import type { TimeShape } from "../../core/time/Time.ts";
import { ConsoleToken, RETRY_AFTER_SECONDS } from "./ConsoleToken.ts";
import { NAME_PARAMETER, requestOf } from "./consoleApi.ts";
import { NewsStreams } from "./NewsStreams.ts";
import { page } from "./page.ts";

/** No request to the console needs a body. */
const BODY_BYTES_MAX = 1024;
const NONCE_BYTES = 16;

interface ConsoleParts {
  readonly token: string;
  /** The address on which the console listens. */
  readonly hostname: string;
  /** The host name that callers use where a proxy is in front of the console. */
  readonly publicHost: string | undefined;
  readonly time: Pick<TimeShape, "monotonicMs" | "after">;
  readonly log: LogShape;
}

export class Console {
  private readonly token: ConsoleToken;
  private readonly servesHost: (header: string | undefined) => boolean;
  private readonly log: LogShape;
  private readonly news: NewsStreams;

  constructor(
    private readonly source: ConsoleSource,
    { token, hostname, publicHost, time, log }: ConsoleParts,
  ) {
    this.token = new ConsoleToken(token, time, publicHost === undefined ? 0 : 1);
    this.servesHost = hostRule(hostname, publicHost);
    this.log = log;
    this.news = new NewsStreams(source, time);
  }

  readonly handlers: HttpHandlers = {
    limitBody: () => BODY_BYTES_MAX,
    onRequest: (exchange) =>
      this.answer(exchange).then(
        (response) => {
          if (response !== undefined) exchange.respond(response);
        },
        (error: unknown) => exchange.respond(this.explain(error)),
      ),
    onUpgrade: () => Promise.resolve({ _tag: "Refuse", response: text(404, "Not found") }),
    onFailure: ({ error, ...where }) =>
      this.log.error("the console could not answer", { ...where, error: describe(error) }),
  };

  /** Undefined: a stream answers the request. */
  private async answer(exchange: Exchange): Promise<HttpResponse | undefined> {
    const { request } = exchange;
    // Rule 4.
    if (!this.servesHost(request.headers["host"]?.[0])) return MISDIRECTED;
    // Not resolved against a base: a target may begin with two slashes.
    const url = new URL(`http://console${request.target}`);
    if (url.pathname === "/") return request.method === "GET" ? pageResponse() : notAllowed("GET");
    // Rule 1.
    const verdict = this.token.judge(request);
    if (verdict === "tooMany") return TOO_MANY;
    if (verdict !== "right") return UNKNOWN;
    const [, api, ...path] = url.pathname.split("/").map(decodeURIComponent);
    if (api === "api" && path[0] === "news" && path.length === 1)
      return request.method === "GET"
        ? this.tellNews(exchange, url.searchParams)
        : notAllowed("GET");
    const asked = api === "api" ? requestOf(this.source, path, url.searchParams) : undefined;
    if (asked === undefined) return text(404, "Not found");
    if (request.method !== asked.method) return notAllowed(asked.method);
    // Rule 2.
    if (asked.method === "POST" && isForeign(request))
      return text(403, "Only the console's own page may do this");
    if (asked.method === "POST")
      this.log.info("an operator acted", {
        act: url.pathname,
        ...defined({ name: url.searchParams.get(NAME_PARAMETER) ?? undefined }),
        from: request.remoteAddress,
      });
    return json(200, await asked.run());
  }

  private tellNews(exchange: Exchange, query: URLSearchParams): HttpResponse | undefined {
    const [className, name] = [query.get("class"), query.get("name")];
    const connections = query.has("connections");
    const wanted =
      className === null || name === null ? undefined : { className, name, connections };
    const rest = this.news.open(wanted);
    if (rest === undefined) return text(503, "Too many pages are open");
    const headers = [["content-type", "application/x-ndjson; charset=utf-8"], ...QUIET] as const;
    exchange.stream({ status: 200, headers, body: "" }, rest);
    return undefined;
  }

  private explain(error: unknown): HttpResponse {
    if (error instanceof ConsoleRefusal) return json(error.status, { error: error.message });
    if (error instanceof BrokerUnavailable)
      return json(503, { error: `The broker can't be reached: ${error.message}` });
    if (error instanceof URIError) return text(400, "The path can't be decoded");
    this.log.error("the console could not answer", { error: describe(error) });
    return json(500, { error: "Internal error: see the console's log" });
  }
}

const describe = (error: unknown): string | undefined =>
  error instanceof Error ? error.stack : String(error);

/** Rule 2, by the headers that browsers add. A program that has the token is not restricted. */
const isForeign = ({ headers }: HttpRequest): boolean => {
  const site = headers["sec-fetch-site"]?.[0];
  return site !== undefined && site !== "same-origin" && site !== "none";
};

/** Rule 4, against DNS rebinding: another site's name that resolves to here comes as Host. */
function hostRule(
  hostname: string,
  publicHost: string | undefined,
): (header: string | undefined) => boolean {
  const names = publicHost === undefined ? [] : [publicHost.toLowerCase()];
  if (names.length === 0 && !isLoopbackHost(hostname)) return () => true;
  return (header) => servesHost({ names, addresses: false }, header);
}

const QUIET: ReadonlyArray<readonly [string, string]> = [
  ["cache-control", "no-store"],
  ["x-content-type-options", "nosniff"],
  ["x-frame-options", "DENY"],
  ["cross-origin-resource-policy", "same-origin"],
  ["cross-origin-opener-policy", "same-origin"],
  ["referrer-policy", "no-referrer"],
];

const text = (
  status: number,
  body: string,
  headers: ReadonlyArray<readonly [string, string]> = [],
): HttpResponse => ({
  status,
  headers: [["content-type", "text/plain; charset=utf-8"], ...QUIET, ...headers],
  body: `${body}\n`,
});

const notAllowed = (method: string): HttpResponse =>
  text(405, "Method not allowed", [["allow", method]]);

const json = (status: number, value: unknown): HttpResponse => ({
  status,
  headers: [["content-type", "application/json; charset=utf-8"], ...QUIET],
  body: JSON.stringify(value),
});

/** Rule 3. */
function pageResponse(): HttpResponse {
  const nonce = randomBytes(NONCE_BYTES).toString("base64");
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'`;
  return {
    status: 200,
    headers: [
      ["content-type", "text/html; charset=utf-8"],
      ["content-security-policy", policy],
      ...QUIET,
    ],
    body: page(nonce),
  };
}

const UNKNOWN = text(
  401,
  "Open the URL that agents console printed, or send its token: Authorization: Bearer …",
  [["www-authenticate", "Bearer"]],
);
const TOO_MANY = text(429, "Too many wrong tokens from this address: try again in a minute", [
  ["retry-after", String(RETRY_AFTER_SECONDS)],
]);
const MISDIRECTED = text(
  421,
  "Misdirected request: use 127.0.0.1 or localhost, or start the console with --public-host",
);
