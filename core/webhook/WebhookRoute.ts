/**
 * A declared webhook route as data: how to match it, verify it, and find the agent. Users build it
 * with `agents/webhooks` (`services/webhooks`); the gateway serves it.
 *
 * Order of a request, where each step answers and stops when it fails: match → method → size → read
 * raw body → prepare → verify over the raw bytes → handshake → entity → dedup keys → inbox. A batch
 * passes the last three once per item.
 */
import * as Data from "effect/Data";
import type { Redaction } from "../redaction/Redaction.ts";

/** Bytes of the largest body that a route can accept, and the default: GitHub's limit. */
export const WEBHOOK_BODY_BYTES_MAX = 25 * 1024 * 1024;

/** A wrong declaration of a route, verifier or entity source. The message says what to write. */
export class InvalidWebhook extends Data.TaggedError("InvalidWebhook")<{
  readonly message: string;
}> {}

/** One request as verifiers and entity sources see it. */
export interface WebhookRequest {
  /** In upper case. */
  readonly method: string;
  /** The full URL as the caller saw it, with the `publicUrl`'s scheme and host where it is set. */
  readonly url: string;
  /** Path parameters of the route's pattern, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** By lower-case name, the values as they came. A header that was sent twice has two. */
  readonly headers: Readonly<Record<string, ReadonlyArray<string>>>;
  /** The raw body, before any parsing. */
  readonly body: Uint8Array;
  /** Wall clock, milliseconds since the epoch. The replay window is measured against it. */
  readonly nowMs: number;
  /** Secrets and bindings by name. */
  readonly env: Readonly<Record<string, unknown>>;
}

/** An answer of the gateway. */
export interface PlainAnswer {
  /** HTTP status. */
  readonly status: number;
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>;
  /** The body as text; may be empty. */
  readonly body: string;
}

/** The details of one event: a request's only one, or one of a batch. */
export interface EventDetails {
  /** The provider's event id. Absent: it sent none. */
  readonly dedupId?: string;
  /** The provider's event type. Absent: it sent none. */
  readonly eventType?: string;
  /** Number of the delivery, from 1. The provider does not sign it: for logs only. */
  readonly attempt?: number;
}

/** One event of a request that holds several. */
export interface BatchItem extends EventDetails {
  /** The event's part of the signed body, byte for byte: for the entity source and the agent. */
  readonly body: Uint8Array;
}

/** The result of verifying one request. */
export type Verdict =
  | ({
      readonly _tag: "Verified";
      /** A second dedup id: the hash of the signed body, where the verifier has `replayGuard`. */
      readonly replayId?: string;
      /**
       * The content type for the agent, where the request's own says JSON of a form, or a form of
       * JSON: no signature covers it. Absent: the request's own.
       */
      readonly contentType?: string;
      /**
       * The events of a batch; can be empty. Each is an input of its own, for the agent that its
       * own body names, and the answer is 200 once all are stored. Absent: the request is one
       * event.
       */
      readonly items?: ReadonlyArray<BatchItem>;
    } & EventDetails)
  /** A handshake of the provider. The gateway sends `answer`; no agent sees the request. */
  | { readonly _tag: "Handshake"; readonly answer: PlainAnswer }
  /** 401 `Invalid signature`. `reason` is for the log; the caller never sees it. */
  | { readonly _tag: "Rejected"; readonly reason: string }
  /** 500: a secret of the verifier is not set. `message` is for the log and says which. */
  | { readonly _tag: "Misconfigured"; readonly message: string }
  /** 503: a provider's certificate can't be fetched now. `message` is for the log. */
  | { readonly _tag: "Unavailable"; readonly message: string };

/** The verdict on a request whose sender is known. */
export type Verified = Extract<Verdict, { readonly _tag: "Verified" }>;

/** The verdict that the operator has to mend. */
export type Misconfigured = Extract<Verdict, { readonly _tag: "Misconfigured" }>;

/** The faults of an environment. All lists are empty when it has none. */
export interface SecretsCheck {
  /** Lists of variables of which at least one must be set, and none is. */
  readonly unset: ReadonlyArray<ReadonlyArray<string>>;
  /** Variables of signed URLs that are not set. Absent: none. */
  readonly unsetUrls?: ReadonlyArray<string>;
  /** Faults of values that are set, each with its variable's name. */
  readonly faults: ReadonlyArray<string>;
}

/** Verifies the requests of one sender. Made by `github(…)`, `hmac(…)`, `unsigned()` and so on. */
export interface Verifier {
  /** Short name, like `github`; part of dedup keys and logs. */
  readonly provider: string;
  /** Milliseconds to wait for the agent's answer before 202, unless the route says otherwise. */
  readonly deadlineMs: number;
  /** Parts of a request that the signature covers. An entity from elsewhere needs `trust`. */
  readonly signs: ReadonlyArray<"body" | "url" | "headers">;
  /** The URL to verify for a request with this URL. Absent: the provider signs no URL. */
  readonly signedUrl?: (request: Pick<WebhookRequest, "url" | "env">) => string | Misconfigured;
  /**
   * Methods besides POST that the provider's handshake uses (`GET` for Meta's `hub.challenge`);
   * absent: none. A request by such a method can end in `Handshake` or `Rejected` only:
   * `allowsMethod` lets it through to `verify`, and a `Verified` for it is answered 405.
   */
  readonly handshakeMethods?: ReadonlyArray<string>;
  /**
   * Environment variables that it takes its secrets from; `agents dev` makes up the ones not set.
   * Absent: none.
   */
  readonly secretNames?: ReadonlyArray<string>;
  /** It lets every request through: its class stays open (`signedClasses`). Absent: it verifies. */
  readonly unsigned?: true;
  /**
   * It recognizes repetitions by ids of a sender that `provider` does not name: two such routes of
   * one class would take an id of one sender for the same id of the other (`RouteTable`). Absent:
   * `provider` names the sender, or there are no ids.
   */
  readonly namesNoSender?: true;
  /** Headers that carry a secret itself, in lower case: neither stored nor seen by the agent. */
  readonly secretHeaders?: ReadonlyArray<string>;
  /** What an environment lacks, asked before serving. Absent: each of `secretNames` is needed. */
  readonly checkSecrets?: (env: Readonly<Record<string, unknown>>) => SecretsCheck;
  /**
   * Fetches what `verify` needs from elsewhere and keeps it; undefined when there is nothing to
   * fetch. The gateway waits for it within the route's deadline. Never rejects: `verify` says what
   * is missing.
   */
  readonly prepare?: (request: WebhookRequest) => Promise<void> | undefined;
  /** Synchronous and without effects. Never throws, whatever bytes a caller sends. */
  readonly verify: (request: WebhookRequest) => Verdict;
}

/** The agent's name that an entity source found in a request. */
export type EntityResult =
  /** `slugged`: the value that `slug` converted. An agent accepts one such entity only. */
  | { readonly _tag: "Entity"; readonly name: string; readonly slugged?: string }
  /** 400 `Missing <field>`. */
  | { readonly _tag: "Missing"; readonly field: string }
  /** 400 with `message`, which is `Invalid JSON` for a body that is not JSON. */
  | { readonly _tag: "Invalid"; readonly message: string };

/** Finds the agent's name. Made by `body(…)`, `path(…)`, `header(…)` and `constant(…)`. */
export interface EntitySource {
  /** The part of the request that it reads. */
  readonly from: "body" | "path" | "header" | "constant";
  /** Whether the value is accepted although no signature covers it. */
  readonly trust: boolean;
  /** The body path, or the name of the parameter or header, for checks and messages. */
  readonly key?: string;
  /** Pure. Never throws, whatever bytes a caller sends. Called after verification only. */
  readonly resolve: (request: WebhookRequest) => EntityResult;
}

/** Where a route sends its events: a class, and how its agent is found. */
export interface WebhookTarget {
  /** Name of the agent class. */
  readonly agent: string;
  /** Finds the agent's name. */
  readonly entity: EntitySource;
  /**
   * Whether the target takes the event. Called after verification; throws what the user's function
   * throws. Absent: it takes all.
   */
  readonly when?: (request: WebhookRequest) => boolean;
}

/** A declared route. Made by `webhook(path, options)`. The route itself is its first target. */
export interface WebhookRoute extends WebhookTarget {
  /** The pattern, like `/webhooks/stripe/:customer`. */
  readonly path: string;
  /** Verifies the sender. */
  readonly verifier: Verifier;
  /** Further targets. An event that several take becomes an input of each. Absent: none. */
  readonly also?: ReadonlyArray<WebhookTarget>;
  /** `agent`: waits for its answer up to the deadline. `stored`: 202 as soon as it is stored. */
  readonly answer: "agent" | "stored";
  /** Milliseconds to wait for the agent's answer. */
  readonly deadlineMs: number;
  /** Bytes of the largest accepted body; a larger one is answered 413. */
  readonly bodyBytesMax: number;
  /** Hides credentials before a request is stored: the usual names, the verifier's, the route's. */
  readonly redaction: Redaction;
  /** Paths of fields of the body that are not kept once the agent has it. Absent: none. */
  readonly redactedFields?: ReadonlyArray<string>;
}

/** Whether the route accepts a method. If not, it answers 405 before the body is read. */
export const allowsMethod = (route: WebhookRoute, method: string): boolean =>
  method === "POST" || (route.verifier.handshakeMethods?.includes(method) ?? false);

/**
 * Names of the classes that receive webhooks of a verified route. Their code may rely on signed
 * requests, so the default routing accepts no others for them (`docs/guides/access.md`).
 */
export const signedClasses = (routes: ReadonlyArray<WebhookRoute>): ReadonlySet<string> =>
  new Set(
    routes
      .filter(({ verifier }) => verifier.unsigned !== true)
      .flatMap((route) => [...targetsOf(route, undefined)])
      .map(({ agent }) => agent),
  );

/** The targets that take an event. `request` undefined: all of the route's. */
export const targetsOf = (
  route: WebhookRoute,
  request: WebhookRequest | undefined,
): ReadonlyArray<WebhookTarget> =>
  [route, ...(route.also ?? [])].filter(
    ({ when }) => when === undefined || request === undefined || when(request),
  );
