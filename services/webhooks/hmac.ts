/**
 * Verifiers for senders without a row in `providers`: `hmac`, whose options describe a row, and
 * `unsigned`, which verifies nothing.
 */
import { InvalidWebhook, type Verifier } from "../../core/webhook/WebhookRoute.ts";
import { CALL_KEYS, MAIL_KEYS, SIGNAL_KEYS, WEBHOOK_KEYS } from "../../core/journal/laneKeys.ts";
import {
  checkHmac,
  checkScheme,
  checkUnsigned,
  type HmacOptions,
  type HmacScheme,
  type UnsignedOptions,
} from "./HmacOptions.ts";
import * as providers from "./providers.ts";
import { schemeOf } from "./providers/Provider.ts";
import {
  DEADLINE_MS_DEFAULT,
  TOLERANCE_SECONDS_DEFAULT,
  type DetailFields,
  type SignatureScheme,
} from "./verifier/SignatureScheme.ts";
import { valuesOf, verified, type DetailHeaders } from "./verifier/verified.ts";
import { verifierOf } from "./verifier/verifierOf.ts";

/**
 * Any HMAC over a template. With only a secret it is the scheme of `interface.md` §5:
 * `X-Hub-Signature-256: sha256=<lower-case hex of the body's HMAC-SHA-256>`, and an event that is
 * delivered again runs again, because nothing says what its `id` is. Deadline 5 s. Throws
 * `InvalidWebhook` for options that are unknown, can't work or contradict each other.
 */
export function hmac(options: HmacOptions): Verifier {
  checkHmac(options);
  return { ...verifierOf(hmacScheme(options), options), ...senderOf(options) };
}

/** `Verifier.namesNoSender`. */
const senderOf = ({
  provider,
  id,
  replayGuard,
}: Pick<UnsignedOptions, "provider" | "id" | "replayGuard">): Pick<Verifier, "namesNoSender"> =>
  provider === undefined && (id !== undefined || replayGuard === true)
    ? { namesNoSender: true }
    : {};

/** The row that `hmac`'s options describe. Throws `InvalidWebhook` as `hmac` does. */
export function hmacScheme(options: HmacScheme): SignatureScheme {
  checkScheme(options);
  const { algorithm = "sha256", template = "{body}", timestamp, separator } = options;
  const details = detailsOf(options);
  return {
    ...details.fields,
    provider: providerName(options.provider ?? "hmac"),
    deadlineMs: DEADLINE_MS_DEFAULT,
    algorithm: `hmac-${algorithm}`,
    encoding: options.encoding ?? "hex",
    headers: [
      {
        ...details.headers,
        signature: (options.header ?? "x-hub-signature-256").toLowerCase(),
        ...(timestamp !== undefined &&
          "header" in timestamp && { timestamp: timestamp.header.toLowerCase() }),
      },
    ],
    ...(separator !== undefined && { separator }),
    prefix: options.prefix ?? `${algorithm}=`,
    template,
    ...(timestamp !== undefined && {
      timestamp: {
        ...("item" in timestamp && { item: timestamp.item }),
        unit: timestamp.unit ?? "s",
        toleranceSeconds: TOLERANCE_SECONDS_DEFAULT,
      },
    }),
    secretFormat: options.secretFormat ?? "plain",
  };
}

/**
 * Lets every request through. For senders that cannot sign, behind a network or a proxy that keeps
 * others out. The entity of such a route needs `trust: true`, one in the body too. Deadline 5 s.
 * Throws `InvalidWebhook` for an option that is unknown or can't work.
 */
export function unsigned(options: UnsignedOptions = {}): Verifier {
  checkUnsigned(options);
  const { fields, headers } = detailsOf(options);
  const { replayGuard = false } = options;
  return {
    provider: unsignedName(options.provider ?? "unsigned"),
    deadlineMs: DEADLINE_MS_DEFAULT,
    signs: [],
    unsigned: true,
    ...senderOf(options),
    verify: (request) =>
      headers.id !== undefined && valuesOf(request, headers.id).length > 1
        ? { _tag: "Rejected", reason: `header ${headers.id} was sent more than once` }
        : verified(fields, request, { headers, replayGuard }),
  };
}

function detailsOf(options: Pick<UnsignedOptions, "id" | "event">): {
  readonly fields: DetailFields;
  readonly headers: DetailHeaders;
} {
  const { id, event = { header: "x-event-type" } } = options;
  return {
    fields: {
      ...(id !== undefined && "field" in id && { idFields: [id.field] }),
      ...("field" in event && { eventFields: [event.field] }),
    },
    headers: {
      ...(id !== undefined && "header" in id && { id: id.header.toLowerCase() }),
      ...("header" in event && { event: event.header.toLowerCase() }),
    },
  };
}

/**
 * First parts of the other keys in a `DoneSet`: inputs that died (`DEAD_PREFIX`), inputs without a
 * provider's id, and inputs of other kinds.
 */
const TAKEN: ReadonlySet<string> = new Set([
  "dead", "fork", "gen", "mail", "queue", "redelivery", "redrive", "restore", "schedule",
  CALL_KEYS, MAIL_KEYS, SIGNAL_KEYS, WEBHOOK_KEYS, "workflow",
]); // prettier-ignore

/** Checks a name that becomes part of dedup keys, where a colon or a space would separate. */
function providerName(name: string): string {
  if (typeof name !== "string" || !/^[A-Za-z0-9_-]{1,64}$/.test(name))
    throw new InvalidWebhook({
      message: `provider "${name}": use 1 to 64 letters, digits, "-" and "_"`,
    });
  if (TAKEN.has(name))
    throw new InvalidWebhook({
      message: `provider "${name}": inputs of another kind have that name in their dedup keys: choose another one`,
    });
  return name;
}

/**
 * An unsigned route under a built-in provider's name would pass for it in agents' code, and anyone
 * could use up the provider's ids first.
 */
function unsignedName(name: string): string {
  if (Object.values(providers).some((of) => schemeOf(of).provider === name))
    throw new InvalidWebhook({
      message: `unsigned({ provider: "${name}" }): a verifier has that name: choose another one, like "${name}-proxy"`,
    });
  return providerName(name);
}
