/**
 * The secrets of one verifier: the environment variables that hold them, and the keys made from
 * their values. Built once per verifier and asked on every request, since each request carries its
 * own environment.
 *
 * 1. A string is always the name of an environment variable, never a secret; a secret itself is
 *    written `{ value }`. Hence an unset variable can't turn its public name into the secret.
 * 2. A value is one whole secret: it may contain spaces and commas. Two live secrets are two names.
 * 3. Nothing that may be a secret is put in a message.
 */
import type { KeyObject } from "node:crypto";
import {
  InvalidWebhook,
  type SecretsCheck,
  type WebhookRequest,
} from "../../../core/webhook/WebhookRoute.ts";
import { isPublic, keyOf, type SecretFormat } from "./keyOf.ts";

/** The name of an environment variable that holds a secret, or the secret itself as `{ value }`. */
export type Secret = string | { readonly value: string };

/** The keys of one request. */
export type Keys =
  /** `hint`: a likely mistake, for the log when no signature matches. */
  | { readonly _tag: "Keys"; readonly keys: ReadonlyArray<KeyObject>; readonly hint?: string }
  | { readonly _tag: "Misconfigured"; readonly message: string }
  /** The keys are fetched from elsewhere and have not arrived. */
  | { readonly _tag: "Unavailable"; readonly message: string };

/** The source of a verifier's keys: `Secrets`, or a provider's certificates. */
export interface KeySource {
  /** Environment variables for which `agents dev` can generate values. */
  readonly names: ReadonlyArray<string>;
  readonly keysFor: (request: WebhookRequest) => Keys;
  readonly checkIn: (env: Readonly<Record<string, unknown>>) => SecretsCheck;
}

/** A rotation has two. Each costs one digest per forged request, so the list is bounded. */
const SECRETS_MAX = 8;
/** The name of an environment variable. */
export const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Conventional names. Another string may be a secret: no message repeats it (rule 3). */
const CONVENTIONAL = /^[A-Z][A-Z0-9_]{0,63}$/;
/** Prefix of Standard Webhooks' secrets: such a string is a secret, not a variable's name. */
const SECRET_PREFIX = /^wh(?:sec|pk|sk)_/;

/** The result of a check that found nothing. */
export const NOTHING_WRONG: SecretsCheck = { unset: [], faults: [] };

/** Secrets from environment variables and literals. */
export class Secrets implements KeySource {
  private readonly secrets: ReadonlyArray<Secret>;
  private known: { readonly values: ReadonlyArray<unknown>; readonly keys: Keys } | undefined;

  /**
   * Throws `InvalidWebhook` for none, a list that is empty or too long, a string that can't be a
   * variable's name, or a bad literal.
   */
  constructor(
    private readonly provider: string,
    secret: Secret | ReadonlyArray<Secret> | undefined,
    private readonly format: SecretFormat,
    /** Name of the user's option, for messages. */
    private readonly option = "secret",
  ) {
    if (secret === undefined)
      throw this.wrong("it is missing: write the name of the environment variable that holds it");
    this.secrets = isList(secret) ? secret : [secret];
    if (this.secrets.length === 0 || this.secrets.length > SECRETS_MAX)
      throw this.wrong(`use 1 to ${SECRETS_MAX} ${option}s`);
    for (const each of this.secrets) this.check(each);
  }

  /** The variables that hold the secrets. Empty for literals, and for public keys. */
  get names(): ReadonlyArray<string> {
    return isPublic(this.format) ? [] : this.secrets.filter((each) => typeof each === "string");
  }

  readonly keysFor = (request: WebhookRequest): Keys => this.keys(request.env);

  /** An unset public key leaves its route `Misconfigured`; it does not prevent the start. */
  readonly checkIn = (env: Readonly<Record<string, unknown>>): SecretsCheck => {
    if (isPublic(this.format)) return NOTHING_WRONG;
    if (this.secrets.every((each) => valueOf(each, env) === undefined))
      return { unset: [this.names], faults: [] };
    const keys = this.keys(env);
    return keys._tag === "Misconfigured" ? { unset: [], faults: [keys.message] } : NOTHING_WRONG;
  };

  /**
   * The keys of this environment. In a list, an unset variable is skipped as long as another is
   * set, so an old secret's variable can be removed after its rotation. A variable that is set but
   * empty or unreadable is always `Misconfigured`.
   */
  keys(env: Readonly<Record<string, unknown>>): Keys {
    const { known, secrets } = this;
    if (known !== undefined && secrets.every((s, i) => valueOf(s, env) === known.values[i]))
      return known.keys;
    const values = secrets.map((s) => valueOf(s, env));
    const keys = this.make(values);
    this.known = { values, keys };
    return keys;
  }

  private make(values: ReadonlyArray<unknown>): Keys {
    const keys: KeyObject[] = [];
    const unset: string[] = [];
    let hint: string | undefined;
    for (const [i, value] of values.entries()) {
      const label = labelOf(this.secrets[i]!);
      if (value === undefined) {
        unset.push(label);
        continue;
      }
      const key = keyOf(value, this.format);
      if (typeof key === "string") return this.misconfigured(`${label} ${key}`);
      keys.push(key);
      if (!isPublic(this.format) && value !== (value as string).trim())
        hint = `${label} begins or ends with white space: is it part of the secret?`;
    }
    if (keys.length === 0)
      return this.misconfigured(
        `${unset.join(" and ")} ${unset.length > 1 ? "are" : "is"} not set`,
      );
    return { _tag: "Keys", keys, ...(hint !== undefined && { hint }) };
  }

  private check(secret: Secret): void {
    if (typeof secret === "string") {
      if (VARIABLE.test(secret) && !SECRET_PREFIX.test(secret)) return;
      throw this.wrong(
        "a string must be the name of an environment variable, which this is not; to pass the secret itself, write { value: … }",
      );
    }
    const key = keyOf(secret?.value, this.format);
    if (typeof key === "string") throw this.wrong(`the value given ${key}`);
  }

  private wrong(why: string): InvalidWebhook {
    return new InvalidWebhook({ message: `${this.provider}({ ${this.option} }): ${why}` });
  }

  private misconfigured(what: string): Keys {
    const noun = this.option === "secret" ? "webhook secret" : this.option;
    return {
      _tag: "Misconfigured",
      message: `${this.provider}: ${what}: set the provider's ${noun} in the environment`,
    };
  }
}

const isList = (secret: Secret | ReadonlyArray<Secret>): secret is ReadonlyArray<Secret> =>
  Array.isArray(secret);

function valueOf(secret: Secret, env: Readonly<Record<string, unknown>>): unknown {
  if (typeof secret !== "string") return secret.value;
  return Object.hasOwn(env, secret) ? env[secret] : undefined;
}

function labelOf(secret: Secret): string {
  if (typeof secret !== "string") return "a secret given as { value }";
  return CONVENTIONAL.test(secret) ? secret : `the variable "${secret.slice(0, 3)}…"`;
}
