/**
 * The verifier of every provider: applies a row (`SignatureScheme`) to a request. The gateway
 * passes raw bytes in; verified requests go on to the route's entity source.
 *
 * 1. Nothing is parsed before the signature over the raw bytes is verified. The one exception is a
 *    form whose fields are signed (Twilio), within bounds.
 * 2. Every header that takes part occurs at most once. Of two, a proxy and this code could each
 *    trust a different one.
 * 3. All live secrets are tried against all signatures sent, each comparison in constant time.
 * 4. A missing secret is reported as the operator's fault and never lets a request through.
 * 5. Never throws, whatever the request.
 */
import { shownValue } from "../../../core/errors/shownValue.ts";
import type { KeyObject } from "node:crypto";
import {
  InvalidWebhook,
  type Misconfigured,
  type Verdict,
  type Verifier,
  type WebhookRequest,
} from "../../../core/webhook/WebhookRoute.ts";
import { isPublic } from "./keyOf.ts";
import { PublicUrl } from "./PublicUrl.ts";
import { Secrets, type KeySource, type Secret } from "./Secrets.ts";
import { sentSignatures, type SentSignatures } from "./sentSignatures.ts";
import { parseTemplate, signedBytes, sortedForm, type SignedParts } from "./signedBytes.ts";
import type { SignatureHeaders, SignatureScheme } from "./SignatureScheme.ts";
import { isSignedBy, sameText, type Algorithm } from "./Signatures.ts";
import { refuseTimestamp } from "./timestamp.ts";
import { firstValue, sha256, textAt, valuesOf, verified } from "./verified.ts";

/** Options of every verifier with a shared secret. */
export interface VerifierOptions {
  /**
   * Name of the environment variable that holds the provider's secret, like
   * `"GITHUB_WEBHOOK_SECRET"`; or `{ value }` with the secret itself; or a list of 1 to 8 of these,
   * all live, for a rotation.
   */
  readonly secret: Secret | ReadonlyArray<Secret>;
  /**
   * Whether a body that was seen before under another id is refused too. For providers whose id is
   * not signed. Default false.
   */
  readonly replayGuard?: boolean;
}

/** Options of verifiers for providers that sign a time. */
export interface TimestampedOptions extends VerifierOptions {
  /** Seconds that the signed time may be off, either way: 1 to 604,800. Default: the provider's. */
  readonly toleranceSeconds?: number;
}

/** Options of verifiers for providers that sign the URL. */
export interface UrlOptions {
  /**
   * The URL that is configured with the provider, or its origin, or the name of an environment
   * variable with either. Default: the request's own URL, by the gateway's `publicUrl`. See
   * `docs/guides/webhooks.md`.
   */
  readonly url?: string;
}

/** What a provider adds to the user's options. */
export interface VerifierParts {
  /** The source of keys, in place of `secret`. */
  readonly keys?: KeySource & Pick<Verifier, "prepare">;
  /** The value of `{webhook}`, from the request's environment. */
  readonly webhook?: (request: WebhookRequest) => string | Misconfigured;
  /** Answers the provider's unsigned requests by other methods than POST. */
  readonly greeting?: {
    readonly methods: ReadonlyArray<string>;
    readonly secrets?: Pick<KeySource, "names" | "checkIn">;
    readonly verdictOn: (request: WebhookRequest) => Verdict;
  };
}

/** The options that `verifierOf` reads; a provider's own options have these and more. */
export type SchemeOptions = Omit<TimestampedOptions, "secret"> &
  Partial<Pick<VerifierOptions, "secret">> &
  UrlOptions;

/** The time for which ids are remembered. A longer window would accept an old request twice. */
const TOLERANCE_SECONDS_MAX = 7 * 24 * 3600;

const rejected = (reason: string): Verdict => ({ _tag: "Rejected", reason });

/** Options and parts, checked. */
interface Checked {
  readonly scheme: SignatureScheme;
  readonly parts: VerifierParts;
  readonly keys: KeySource & Pick<Verifier, "prepare">;
  readonly template: Template;
  readonly publicUrl: PublicUrl;
  readonly toleranceSeconds: number | undefined;
  readonly replayGuard: boolean;
}

/** Throws `InvalidWebhook` for options that can't work. A verifier's only state is its keys. */
export function verifierOf(
  scheme: SignatureScheme,
  options: SchemeOptions,
  parts: VerifierParts = {},
): Verifier {
  const checked = checkOptions(scheme, options, parts);
  const { keys, template, publicUrl } = checked;
  const { greeting } = parts;
  const sources = greeting?.secrets === undefined ? [keys] : [keys, greeting.secrets];
  return {
    provider: scheme.provider,
    deadlineMs: scheme.deadlineMs,
    signs: [
      ...(coversBody(scheme) ? (["body"] as const) : []),
      ...(template.includes("url") && publicUrl.hasRequestPath ? (["url"] as const) : []),
    ],
    ...(template.includes("url") && { signedUrl: (request) => publicUrl.of(request) }),
    ...(scheme.secretHeaders !== undefined && { secretHeaders: scheme.secretHeaders }),
    secretNames: sources.flatMap(({ names }) => names),
    checkSecrets: (env) => {
      const checks = sources.map(({ checkIn }) => checkIn(env));
      const url = publicUrl.checkIn(env);
      return {
        ...url,
        unset: checks.flatMap(({ unset }) => unset),
        faults: [...checks, url].flatMap(({ faults }) => faults),
      };
    },
    ...(greeting !== undefined && { handshakeMethods: greeting.methods }),
    ...(keys.prepare !== undefined && { prepare: keys.prepare }),
    verify: (request) => verdictOn(request, checked),
  };
}

function checkOptions(
  scheme: SignatureScheme,
  options: SchemeOptions,
  parts: VerifierParts,
): Checked {
  const { replayGuard = false } = options;
  if (typeof replayGuard !== "boolean")
    throw new InvalidWebhook({ message: `${scheme.provider}({ replayGuard }): use true or false` });
  const keys = parts.keys ?? secretsOf(scheme, options.secret);
  const template = parseTemplate(scheme.template);
  const toleranceSeconds = checkTolerance(scheme, options.toleranceSeconds);
  if (options.url !== undefined && !template.includes("url"))
    throw new InvalidWebhook({ message: `${scheme.provider}({ url }): it does not sign the URL` });
  const publicUrl = new PublicUrl(scheme.provider, options.url);
  return { scheme, parts, keys, template, publicUrl, toleranceSeconds, replayGuard };
}

function verdictOn(request: WebhookRequest, checked: Checked): Verdict {
  const { scheme, parts, keys, template, publicUrl, toleranceSeconds, replayGuard } = checked;
  if (parts.greeting?.methods.includes(request.method)) return parts.greeting.verdictOn(request);
  const found = keys.keysFor(request);
  if (found._tag !== "Keys") return found; // rule 4
  const signedUrl = publicUrl.of(request);
  if (typeof signedUrl !== "string") return signedUrl;
  const webhook = parts.webhook?.(request) ?? "";
  if (typeof webhook !== "string") return webhook;

  const read = readSigned(scheme, request, { template, toleranceSeconds, signedUrl, webhook });
  if (typeof read === "string") return rejected(read);
  const key = keyThatSigned(scheme, read, { template, keys: found.keys });
  if (key === undefined) {
    const hint = found.hint ?? (template.includes("url") ? publicUrl.hintFor(request) : undefined);
    return rejected(`no signature matches${hint === undefined ? "" : ` (${hint})`}`);
  }
  const field = scheme.timestamp?.field;
  if (field !== undefined) {
    // Rule 1: the signature is verified, so the body may be read.
    const why = refuseTime(scheme, textAt(request, field) ?? "", request.nowMs, toleranceSeconds);
    if (why !== undefined) return rejected(why);
  }
  const answer = scheme.handshake?.(request, key);
  if (answer !== undefined) return { _tag: "Handshake", answer };
  return verified(scheme, request, { headers: read.headers, replayGuard });
}

type Template = ReturnType<typeof parseTemplate>;

/** What a request claims to be signed, and by what. */
interface ReadRequest {
  readonly headers: SignatureHeaders;
  readonly sent: SentSignatures;
  readonly algorithm: Algorithm;
  readonly known: Omit<SignedParts, "url">;
  /** The URLs that may have been signed. */
  readonly urls: ReadonlyArray<string>;
}

/** Reads what the signature needs. Returns why the request is rejected if that is not there. */
function readSigned(
  scheme: SignatureScheme,
  request: WebhookRequest,
  given: {
    readonly template: Template;
    readonly toleranceSeconds: number | undefined;
    readonly signedUrl: string;
    readonly webhook: string;
  },
): ReadRequest | string {
  const { template, signedUrl, webhook } = given;
  const headers = headersOf(scheme, request);
  if (typeof headers === "string") return headers;
  const id = firstValue(request, headers.id) ?? "";
  if (id === "" && template.includes("id")) return `no ${headers.id} header`;
  const sent = sentSignatures(scheme, valuesOf(request, headers.signature)[0]!);
  if (typeof sent === "string") return sent;
  let timestamp = "";
  if (scheme.timestamp?.field === undefined) {
    timestamp = sent.timestamp ?? firstValue(request, headers.timestamp) ?? "";
    const why = refuseTime(scheme, timestamp, request.nowMs, given.toleranceSeconds);
    if (why !== undefined) return why;
  }
  const form = template.includes("form") ? formOf(scheme, request, signedUrl) : "";
  if (form === undefined) return "the body is not a form, and its hash is not in the URL";
  const algorithm = algorithmOf(scheme, request);
  if (algorithm === undefined) return `${scheme.algorithmHeader!.name} names no known algorithm`;
  const { body, method } = request;
  const known = { body, method, id, timestamp, webhook, form };
  return { headers, sent, algorithm, known, urls: scheme.urls?.(signedUrl) ?? [signedUrl] };
}

/** Rule 3. Returns the key, since a handshake may need it. */
function keyThatSigned(
  { encoding, asymmetric }: SignatureScheme,
  { algorithm, sent, known, urls }: ReadRequest,
  given: { readonly template: Template; readonly keys: ReadonlyArray<KeyObject> },
): KeyObject | undefined {
  let signer: KeyObject | undefined;
  for (const url of urls) {
    const message = signedBytes(given.template, { url, ...known });
    for (const key of given.keys) {
      const signs =
        asymmetric !== undefined && key.type === "public"
          ? isSignedBy(key, { ...asymmetric, encoding }, message, sent.asymmetric)
          : isSignedBy(key, { algorithm, encoding }, message, sent.signatures);
      if (signs) signer ??= key;
    }
    if (signer !== undefined) break;
  }
  return signer;
}

const secretsOf = (
  { provider, secretFormat }: SignatureScheme,
  secret: Secret | ReadonlyArray<Secret> | undefined,
): VerifierParts["keys"] & {} =>
  new Secrets(provider, secret, secretFormat, isPublic(secretFormat) ? "publicKey" : "secret");

/** A token authenticates its sender and therefore the body, as a secret does for a signer. */
const coversBody = ({ template, algorithm }: SignatureScheme): boolean =>
  algorithm === "token" || /\{(?:body|form|crc32)\}/.test(template);

/** The set of headers that carries the signature, or why no set is usable. */
function headersOf(scheme: SignatureScheme, request: WebhookRequest): SignatureHeaders | string {
  const set = scheme.headers.find(({ signature }) =>
    valuesOf(request, signature).some((value) => value !== ""),
  );
  if (set === undefined) return `no ${scheme.headers[0]!.signature} header`;
  for (const name of [set.signature, set.timestamp, set.id, scheme.algorithmHeader?.name])
    if (name !== undefined && valuesOf(request, name).length > 1)
      return `header ${name} was sent more than once`; // rule 2
  return set;
}

function algorithmOf(scheme: SignatureScheme, request: WebhookRequest): Algorithm | undefined {
  const named = firstValue(request, scheme.algorithmHeader?.name);
  return named === undefined ? scheme.algorithm : scheme.algorithmHeader!.algorithmIn(named);
}

function refuseTime(
  { timestamp }: SignatureScheme,
  text: string,
  nowMs: number,
  toleranceSeconds: number | undefined,
): string | undefined {
  if (timestamp === undefined) return undefined;
  if (text === "") return "no timestamp";
  return refuseTimestamp(text, timestamp.unit, { nowMs, toleranceSeconds });
}

/** `{form}`: the body's fields; empty if the URL has the body's hash; undefined for neither. */
function formOf(scheme: SignatureScheme, request: WebhookRequest, url: string): string | undefined {
  const hash = queryOf(url).get(scheme.bodyHashParameter ?? "");
  if (hash !== null) return sameText(sha256(request.body), hash) ? "" : undefined;
  if (request.body.length === 0) return "";
  const type = firstValue(request, "content-type") ?? "";
  return /^\s*application\/x-www-form-urlencoded\b/i.test(type)
    ? sortedForm(request.body)
    : undefined;
}

const queryOf = (url: string): URLSearchParams =>
  new URLSearchParams(url.includes("?") ? url.slice(url.indexOf("?") + 1) : "");

function checkTolerance(scheme: SignatureScheme, given: number | undefined): number | undefined {
  if (given === undefined) return scheme.timestamp?.toleranceSeconds;
  if (scheme.timestamp === undefined)
    throw new InvalidWebhook({
      message: `${scheme.provider}({ toleranceSeconds }): this provider signs no timestamp; against replays, use replayGuard`,
    });
  if (typeof given !== "number" || !(given >= 1 && given <= TOLERANCE_SECONDS_MAX))
    throw new InvalidWebhook({
      message: `${scheme.provider}({ toleranceSeconds: ${shownValue(given)} }): use 1 to ${TOLERANCE_SECONDS_MAX} seconds`,
    });
  return given;
}
