/**
 * The requests of the console's API: which call of `ConsoleSource` a path and its parameters ask
 * for. `Console` checks who asks, runs the call and answers.
 */
import {
  ConsoleRefusal,
  type AgentOf,
  type ConsoleSource,
  type PointOf,
} from "../../core/console/ConsoleSource.ts";
import { OMITTED, type Omitted } from "../../core/journal/historyLines.ts";
import type { DeliveryStatus } from "../../schemas/DeliveryRecord.ts";

/** Rows of a list; a page asks for further ones with `after`. */
const LIST_MAX = 500;
/** Turns of a page that says no number: some screens. */
const TURNS_DEFAULT = 100;
/** Bounds what one request reads and a browser lays out. */
const TURNS_MAX = 5_000;
/** Steps of a page: some screens. */
const STEPS_MAX = 200;
/** Fibers of a page: some screens. */
const FIBERS_MAX = 100;
/** Each re-run takes some tens of milliseconds. */
const RERUN_LAST_DEFAULT = 20;

interface ApiRequest {
  readonly method: "GET" | "POST";
  readonly run: () => Promise<unknown>;
}

/** The parameter with the agent's name, if the path can't have it: no part is `.` or `..`. */
export const NAME_PARAMETER = "name";

/** `path`: the parts after `/api`. Undefined: there is no such request. Throws `ConsoleRefusal`. */
export function requestOf(
  source: ConsoleSource,
  path: ReadonlyArray<string>,
  query: URLSearchParams,
): ApiRequest | undefined {
  const [what, one = "", two, three] = path;
  if (path.length === 1) return listRequestOf(source, what!, query);
  const given = parametersOf(query);
  if (path.length <= 3 && what === "deliveries")
    return deliveryRequestOf(source, { id: one, what: two }, given);
  if (path.length <= 3 && what === "dead")
    return letterRequestOf(source, { id: one, what: two }, given);
  if (what !== "agents" || path.length !== 4) return undefined;
  const agent = { className: one, name: given(NAME_PARAMETER) ?? two! };
  return agentRequestOf(source, { ...agent, at: given("at") }, three!, query);
}

/** A parameter of the query; undefined if it is absent or empty. */
type Given = (name: string) => string | undefined;

const parametersOf =
  (query: URLSearchParams): Given =>
  (name) =>
    query.get(name) || undefined;

function listRequestOf(
  source: ConsoleSource,
  what: string,
  query: URLSearchParams,
): ApiRequest | undefined {
  const given = parametersOf(query);
  const limit = count(query, "limit", { max: LIST_MAX }) ?? LIST_MAX;
  switch (what) {
    case "overview":
      return get(source.overview);
    case "hosts":
      return get(source.hosts);
    case "top":
      return get(source.top);
    case "query":
      return get(() =>
        source.query({ sql: given("sql") ?? "", at: given("at"), after: given("after") }),
      );
    case "quarantined":
      return get(source.quarantined);
    case "agents":
      return get(() =>
        source.list({
          className: given("class"),
          prefix: given("prefix") ?? "",
          text: given("text") ?? "",
          after: agentAfter(given("after")),
          limit,
          fresh: query.has("fresh"),
        }),
      );
    case "deliveries":
      return get(() =>
        source.deliveries({
          route: given("route"),
          status: given("status") as DeliveryStatus | undefined,
          agent: given("agent"),
          since: given("since"),
          limit,
        }),
      );
    case "dead":
      return get(() => source.dead({ after: count(query, "after") ?? 0, limit }));
    default:
      return undefined;
  }
}

/** `what`: what is asked of it; undefined: to show it. */
interface Named {
  readonly id: string;
  readonly what: string | undefined;
}

function deliveryRequestOf(
  source: ConsoleSource,
  { id, what }: Named,
  given: Given,
): ApiRequest | undefined {
  if (what === undefined) return get(() => source.delivery(id));
  if (what === "redeliver") return post(() => source.redeliver(id, given("to")));
  if (what === "on-fork")
    return post(() => source.redeliverOnFork({ id, module: given("module") ?? "" }));
  return undefined;
}

function letterRequestOf(
  source: ConsoleSource,
  { id, what }: Named,
  given: Given,
): ApiRequest | undefined {
  const ids = id.split(",").map(wholeNumber);
  if (!ids.every((one) => one !== undefined)) return undefined;
  if (what === "on-fork")
    return post(() => source.redriveOnFork({ ids, module: given("module") ?? "" }));
  const [letter] = ids;
  if (ids.length > 1 || letter === undefined) return undefined;
  if (what === undefined) return get(() => source.letter(letter));
  if (what === "redrive") return post(() => source.redrive(letter));
  if (what === "drop") return post(() => source.drop(letter));
  return undefined;
}

function agentRequestOf(
  source: ConsoleSource,
  point: PointOf,
  what: string,
  query: URLSearchParams,
): ApiRequest | undefined {
  const given = parametersOf(query);
  const limit = count(query, "limit", { max: TURNS_MAX });
  const [from, to] = [given("from"), given("to")];
  switch (what) {
    case "history":
      return get(() =>
        source.history({
          ...point,
          limit: limit ?? TURNS_DEFAULT,
          fromSeq: count(query, "from"),
          toSeq: count(query, "to"),
          rows: query.has("rows"),
          omit: omitted(given("omit")),
          filter: {
            kind: given("kind"),
            route: given("route"),
            delivery: given("delivery"),
            failed: query.has("failed"),
            text: given("text"),
          },
        }),
      );
    case "state":
      return get(() => source.state(point));
    case "schedules":
      return get(() => source.schedules(point));
    case "workflows":
      return get(() =>
        source.workflows({
          ...point,
          limit: Math.min(limit ?? STEPS_MAX, STEPS_MAX),
          to: count(query, "to"),
          cursor: given("cursor"),
        }),
      );
    case "connections":
      return get(() =>
        source.connections({
          ...point,
          limit: limit ?? TURNS_DEFAULT,
          skip: count(query, "skip") ?? 0,
        }),
      );
    case "fibers":
      return get(() =>
        source.fibers({
          ...point,
          limit: Math.min(limit ?? FIBERS_MAX, FIBERS_MAX),
          skip: count(query, "skip") ?? 0,
        }),
      );
    case "sql":
      return get(() => source.sql({ ...point, query: given("query") ?? "" }));
    case "why":
      return get(() => source.why({ ...point, path: given("path") ?? "", limit: limit ?? TURNS_DEFAULT })); // prettier-ignore
    case "diff":
      return get(() => source.diff({ ...point, from: from ?? "0", to }));
    default:
      return agentActionOf(source, point, what, query);
  }
}

function agentActionOf(
  source: ConsoleSource,
  point: PointOf,
  what: string,
  query: URLSearchParams,
): ApiRequest | undefined {
  const given = parametersOf(query);
  switch (what) {
    case "on-fork":
      return post(() => source.releaseOnFork({ ...point, module: given("module") ?? "" }));
    case "release":
      return post(() => source.release(point));
    case "fork":
      return post(() => source.fork({ ...point, newName: given("to") ?? "" }));
    case "rerun":
      return post(() =>
        source.rerun({
          ...point,
          module: given("module") ?? "",
          from: count(query, "from"),
          to: count(query, "to"),
          last: count(query, "limit", { max: TURNS_MAX }) ?? RERUN_LAST_DEFAULT,
          failed: query.has("failed"),
        }),
      );
    default:
      return undefined;
  }
}

const get = (run: () => Promise<unknown>): ApiRequest => ({ method: "GET", run });
const post = (run: () => Promise<unknown>): ApiRequest => ({ method: "POST", run });

/** Values of `omit`, separated by commas. */
function omitted(text: string | undefined): ReadonlyArray<Omitted> {
  const asked = text?.split(",") ?? [];
  const known = OMITTED.filter((one) => asked.includes(one));
  if (known.length === asked.length) return known;
  throw new ConsoleRefusal(400, `omit=${text}: use ${OMITTED.join(",")}, or one of them`);
}

/** Undefined if the parameter is absent. */
function count(
  query: URLSearchParams,
  name: string,
  { max = Number.MAX_SAFE_INTEGER }: { readonly max?: number } = {},
): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = wholeNumber(text);
  if (value !== undefined && value <= max) return value;
  throw new ConsoleRefusal(400, `${name}=${text}: use a whole number from 1 to ${max}`);
}

/** A whole number from 1 on, in digits. Undefined for any other text. */
function wholeNumber(text: string): number | undefined {
  const value = Number(text);
  return /^[1-9]\d*$/.test(text) && Number.isSafeInteger(value) ? value : undefined;
}

/** `<class>/<name>`; the name may have slashes. */
function agentAfter(text: string | undefined): AgentOf | undefined {
  if (text === undefined) return undefined;
  const slash = text.indexOf("/");
  if (slash < 1) throw new ConsoleRefusal(400, `after=${text}: use <class>/<name>`);
  return { className: text.slice(0, slash), name: text.slice(slash + 1) };
}
