/**
 * What a declared webhook route is, as data: how to match it, verify it, and find the agent. Built
 * by users through `agents/webhooks` (`services/webhooks`), served by the gateway.
 *
 * Order of a request (each step answers and stops when it fails): match → method → size → read raw
 * body → prepare → verify over the raw bytes → handshake → entity → dedup keys → inbox. A batch
 * goes through the last three once for each of its items.
 */
import * as Data from "effect/Data";
import type { Redaction } from "../redaction/Redaction.ts";

/**
 * Largest body a route may accept, and the default: GitHub's cap, the largest of the known
 * providers.
 */
export const WEBHOOK_BODY_BYTES_MAX = 25 * 1024 * 1024;

/**
 * A route, a verifier or an entity source is declared wrongly: `message` says what and what to
 * write instead.
 */
export class InvalidWebhook extends Data.TaggedError("InvalidWebhook")<{
  readonly message: string;
}> {}

/** What a verifier and an entity source see of one request. Header names are lower-case. */
export interface WebhookRequest {
  readonly method: string;
  /**
   * The full URL as the caller saw it (scheme and host from the gateway's `publicUrl` where
   * configured).
   */
  readonly url: string;
  /** Path parameters of the route's pattern, percent-decoded. */
  readonly params: Readonly<Record<string, string>>;
  /** Each value of a header in the order it came; a header that was sent twice has two. */
  readonly headers: Readonly<Record<string, ReadonlyArray<string>>>;
  /** The raw body, before any parsing. */
  readonly body: Uint8Array;
  /** Wall clock, milliseconds: the replay window is measured against it. */
  readonly nowMs: number;
  /** Secrets and bindings by name. */
  readonly env: Readonly<Record<string, unknown>>;
}

export interface PlainAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** What a verifier knows of one event: a request's only one, or one of a batch. */
export interface EventDetails {
  /** The provider's event id, if it sent one. */
  readonly dedupId?: string;
  readonly eventType?: string;
  /** Which delivery of this event it is, from 1, by the provider's unsigned word: for logs only. */
  readonly attempt?: number;
}

/** One event of a request that holds several. */
export interface BatchItem extends EventDetails {
  /**
   * Its part of the signed body, byte for byte: what the entity source and the agent see as the
   * body.
   */
  readonly body: Uint8Array;
}

export type Verdict =
  | ({
      readonly _tag: "Verified";
      /** A further dedup id (hash of the signed body) when the verifier has `replayGuard: true`. */
      readonly replayId?: string;
      /**
       * The request is a batch of these (perhaps none): each is an input of its own, for the agent
       * that its own body names, and the answer is 200 once all are stored. Absent: it is one
       * event.
       */
      readonly items?: ReadonlyArray<BatchItem>;
    } & EventDetails)
  /** A handshake of the provider's, answered here; it never reaches an agent. */
  | { readonly _tag: "Handshake"; readonly answer: PlainAnswer }
  /** 401 `Invalid signature`. `reason` is for the log, never for the caller. */
  | { readonly _tag: "Rejected"; readonly reason: string }
  /** 500: a secret that the verifier names is not set. `message` says which; logged. */
  | { readonly _tag: "Misconfigured"; readonly message: string }
  /**
   * 503: what it takes to verify (a provider's certificate) can't be had now. `message` is for the
   * log.
   */
  | { readonly _tag: "Unavailable"; readonly message: string };

export interface SecretsCheck {
  /** Lists of variables of which one has to be set, and none is. */
  readonly unset: ReadonlyArray<ReadonlyArray<string>>;
  /** What is wrong with values that are set, each with its variable's name. */
  readonly faults: ReadonlyArray<string>;
}

export interface Verifier {
  /** Short name, e.g. `github`; part of the dedup key and of logs. */
  readonly provider: string;
  /**
   * Milliseconds to wait for the agent's own answer before 202, unless the route says otherwise.
   */
  readonly deadlineMs: number;
  /**
   * Parts of a request that the provider's signature covers. An entity read from elsewhere needs
   * `trust`.
   */
  readonly signs: ReadonlyArray<"body" | "url" | "headers">;
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
  /**
   * It lets every request through: the route closes its class to nobody (`signedClasses`). Absent:
   * it verifies.
   */
  readonly unsigned?: true;
  /**
   * Headers that carry a secret itself, in lower case: never stored, and not seen by the agent.
   * Absent: none.
   */
  readonly secretHeaders?: ReadonlyArray<string>;
  /**
   * What an environment lacks, asked before anything is served. Absent: each of `secretNames` has
   * to be set.
   */
  readonly checkSecrets?: (env: Readonly<Record<string, unknown>>) => SecretsCheck;
  /**
   * Gets what `verify` needs from elsewhere and keeps it; undefined when there is nothing to get.
   * The gateway waits for it within the route's deadline. Never rejects: `verify` says what is
   * missing.
   */
  readonly prepare?: (request: WebhookRequest) => Promise<void> | undefined;
  /** Synchronous, without effects; never throws for any bytes a caller may send. */
  readonly verify: (request: WebhookRequest) => Verdict;
}

export type EntityResult =
  /** `slugged`: what `slug` made the name of. An agent takes webhooks of one such entity only. */
  | { readonly _tag: "Entity"; readonly name: string; readonly slugged?: string }
  /** 400 `Missing <field>`. */
  | { readonly _tag: "Missing"; readonly field: string }
  /** 400 with `message` (body that is not JSON: `Invalid JSON`). */
  | { readonly _tag: "Invalid"; readonly message: string };

export interface EntitySource {
  readonly from: "body" | "path" | "header" | "constant";
  readonly trust: boolean;
  /** What it reads: a body path, a parameter's name or a header's; for checks and messages. */
  readonly key?: string;
  /** Pure; never throws for any bytes a caller may send. Called after verification only. */
  readonly resolve: (request: WebhookRequest) => EntityResult;
}

export interface WebhookRoute {
  /** e.g. `/webhooks/stripe/:customer`. */
  readonly path: string;
  /** Name of the agent class. */
  readonly agent: string;
  readonly verifier: Verifier;
  readonly entity: EntitySource;
  /**
   * `agent`: wait for the agent's answer up to the deadline; `stored`: 202 as soon as it is stored.
   */
  readonly answer: "agent" | "stored";
  readonly deadlineMs: number;
  readonly bodyBytesMax: number;
  /**
   * What of a request is hidden before it is stored: the usual names, the verifier's and the
   * route's own.
   */
  readonly redaction: Redaction;
}

/** False: the route answers 405 `Method not allowed`, before the body is read. */
export const allowsMethod = (route: WebhookRoute, method: string): boolean =>
  method === "POST" || (route.verifier.handshakeMethods?.includes(method) ?? false);

/**
 * Names of the classes that a verified route sends to. Their code may believe that its requests
 * were signed, so the default routing takes nothing else for them (`docs/guides/access.md`).
 */
export const signedClasses = (routes: ReadonlyArray<WebhookRoute>): ReadonlySet<string> =>
  new Set(routes.filter(({ verifier }) => verifier.unsigned !== true).map(({ agent }) => agent));
