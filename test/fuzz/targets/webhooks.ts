/** Requests at verifiers, entity sources and routes: none throws, and no forgery passes. */
import { RouteTable } from "../../../core/webhook/RouteTable.ts";
import { InvalidWebhook, type WebhookRequest } from "../../../core/webhook/WebhookRoute.ts";
import { body, header, path, sign, slug, unsigned, webhook } from "../../../services/webhooks/index.ts"; // prettier-ignore
import { jsonElements } from "../../../services/webhooks/verifier/jsonElements.ts";
import * as everyProvider from "../../webhooks/everyProvider.ts";
import { NOW_MS, requestOf } from "../../webhooks/requests.ts";
import { Broken, joined, partsOf, pure, type FuzzTarget } from "../Target.ts";

const PROVIDERS = [...everyProvider.providers, everyProvider.tokenProvider].map((provider) => {
  const sent = everyProvider.sentBy(provider);
  return { provider, verifier: provider.make(), sent, names: Object.keys(sent.headers) };
});
const METHODS = ["POST", "GET", "HEAD", ""];
/** Bit 0 of the second byte: the body is signed anew; the next two: the method. */
const SIGNED = 1;
const HEADERS_MAX = 6;

interface Sent {
  readonly which: (typeof PROVIDERS)[number];
  readonly signed: boolean;
  readonly method: string;
  readonly url: string;
  readonly values: ReadonlyArray<string>;
  readonly raw: Buffer;
}

function read(input: Uint8Array): Sent {
  const [url, ...rest] = partsOf(input.subarray(2), HEADERS_MAX + 2);
  const flags = input[1] ?? 0;
  return {
    which: PROVIDERS[(input[0] ?? 0) % PROVIDERS.length]!,
    signed: (flags & SIGNED) !== 0,
    method: METHODS[(flags >> 1) % METHODS.length]!,
    url: url!.toString("latin1"),
    values: rest.slice(0, -1).map((value) => value.toString("latin1")),
    raw: rest.at(-1)!,
  };
}

const SIGNATURE_SEEDS = PROVIDERS.flatMap(({ sent, names }, which) =>
  [0, SIGNED].map((flags) => {
    const values = Array.from({ length: HEADERS_MAX }, (_, n) => sent.headers[names[n] ?? ""] ?? "");
    const parts = joined(sent.url ?? "", ...values, sent.body);
    return Buffer.concat([Buffer.from([which, flags]), parts]);
  }),
); // prettier-ignore

function forge({ which, method, url, values, raw }: Sent): void {
  const { provider, verifier, sent, names } = which;
  const headers = Object.fromEntries(names.map((name, n) => [name, values[n] ?? ""]));
  // No signature of the seeds covers it.
  const changed = Buffer.concat([raw, Buffer.from("x")]);
  const request = requestOf({ ...sent, headers, body: changed, method, url });
  const tag = verifier.verify(request)._tag;
  if (provider.name === "intercom" && method === "HEAD" && tag === "Handshake") return;
  // A token vouches for whoever sends it.
  if (provider.name === "gitlabToken" && headers[names[0]!] === sent.headers[names[0]!]) return;
  if (tag !== "Rejected") throw new Broken(`${provider.name} says ${tag} to a forgery`);
}

function signWell({ which, raw }: Sent): void {
  const { provider, verifier } = which;
  const options = { id: "id-1", url: everyProvider.URL, nowMs: NOW_MS, ...provider.options };
  let made: Record<string, string>;
  try {
    made = sign[provider.name](raw, provider.secret, options);
  } catch (error) {
    if (error instanceof InvalidWebhook) return; // its provider signs no such body
    throw error;
  }
  const headers = { ...made, ...provider.also };
  const request = requestOf({ body: raw, headers, url: everyProvider.URL, env: everyProvider.env });
  const verdict = verifier.verify(request);
  // Another body may lack the time or the id that its provider signs within it.
  if (verdict._tag === "Rejected" && raw.equals(Buffer.from(provider.body)))
    throw new Broken(`${provider.name} rejects what it signed: ${verdict.reason}`);
  if (verdict._tag === "Verified") for (const item of verdict.items ?? []) void item.body.length;
}

const ROUTES = new RouteTable(
  ["/w/:a", "/w/:a/b", "/w/c/:d", "/:x/:y/:z"].map((pattern) =>
    webhook(pattern, { agent: "A", verify: unsigned(), entity: body("id", { trust: true }) }),
  ),
);
const ENTITIES = [
  body("repository.full_name", slug),
  body("a.0.b.c"),
  body("payload"),
  path("customer"),
  header("x-team", slug),
];

/** As it was asked before a batch is cut. */
function isJson(raw: Buffer): boolean {
  try {
    JSON.parse(raw.toString());
    return true;
  } catch {
    return false;
  }
}

function resolve(input: Uint8Array): void {
  const [target, type, team, customer, raw] = partsOf(input, 5);
  const match = ROUTES.match(`/${target!.toString("latin1")}`);
  for (const value of Object.values(match?.params ?? {}))
    if (value === "") throw new Broken("a route's parameter is empty");
  const request: WebhookRequest = requestOf({
    body: raw!,
    headers: { "content-type": type!.toString("latin1"), "x-team": team!.toString("latin1") },
    params: { customer: customer!.toString() },
  });
  for (const entity of ENTITIES) {
    const found = entity.resolve(request);
    if (!["Entity", "Missing", "Invalid"].includes(found._tag)) throw new Broken(found._tag);
  }
  if (!isJson(raw!)) return;
  for (const member of [undefined, "events"]) {
    const cut = jsonElements(raw!, member);
    const bytes = cut?.elements.reduce((sum, element) => sum + element.length, 0) ?? 0;
    if (bytes > raw!.length) throw new Broken("a list's elements are more than the document");
  }
}

export const webhookTargets: ReadonlyArray<FuzzTarget> = [
  {
    name: "signatures",
    seeds: SIGNATURE_SEEDS,
    words: ["sha256=", "v0=", "t=", ",v1=", "v1,", " v1a,", String(NOW_MS), "\0", "url_verification", "challenge", "payload="], // prettier-ignore
    open: pure((input) => {
      const sent = read(input);
      if (sent.signed) signWell(sent);
      else forge(sent);
    }),
  },
  {
    name: "entities",
    seeds: [
      joined("w/acme", "application/json", "team", "c-1", '{"repository":{"full_name":"acme/site"},"events":[{"id":1},2]}'),
      joined("w/c/%2F", "application/x-www-form-urlencoded", "a/b", "%00", "payload=%7B%22a%22%3A1%7D&a=b"),
      joined("a/b/c", "application/json; charset=utf-8", "é", "..", '[{"a":[{"b":{"c":"x"}}]}, "\\u0041", 1e3]'),
    ],
    words: ["%2F", "%", "..", "/", "__proto__", '"full_name":', "payload=", "\\u0000", "é", "charset=utf-16"],
    open: pure(resolve),
  },
]; // prettier-ignore
