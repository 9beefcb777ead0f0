/**
 * The secrets of one verifier: which environment variables hold them, and the keys made of their
 * values. Built once with the verifier; asked for every request, since the environment is given per
 * request and may be another one.
 *
 * 1. A string is always the name of an environment variable and never a secret; a secret itself is
 *    written `{ value }`. So a variable that is not set can't turn its public name into the secret.
 * 2. A value is one secret, whole: free text may hold spaces and commas. Two live secrets are two names.
 * 3. Nothing that may be a secret is put in a message.
 */
import type { KeyObject } from "node:crypto";
import {
  InvalidWebhook,
  type SecretsCheck,
  type WebhookRequest,
} from "../../core/webhook/WebhookRoute.ts";
import { isPublic, keyOf, type SecretFormat } from "./keyOf.ts";

export type Secret = string | { readonly value: string };

export type Keys =
  /** At least one. `hint`: a likely mistake in a secret, for the log when no signature matches. */
  | { readonly _tag: "Keys"; readonly keys: ReadonlyArray<KeyObject>; readonly hint?: string }
  | { readonly _tag: "Misconfigured"; readonly message: string }
  /** They are to be had from elsewhere, and are not there yet. */
  | { readonly _tag: "Unavailable"; readonly message: string };

/** Where a verifier has its keys from: `Secrets`, or a provider's certificates. */
export interface KeySource {
  /** Environment variables whose values `agents dev` may make up. */
  readonly names: ReadonlyArray<string>;
  readonly keysFor: (request: WebhookRequest) => Keys;
  readonly checkIn: (env: Readonly<Record<string, unknown>>) => SecretsCheck;
}

/** Two are live in a rotation; each costs a digest per forged request, so the list is bounded. */
const SECRETS_MAX = 8;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Names as people write them; anything else is not repeated in a message, as it may be a secret (3). */
const CONVENTIONAL = /^[A-Z][A-Z0-9_]{0,63}$/;
/** How Standard Webhooks' secrets begin: such a string is a secret and no variable's name. */
const SECRET_PREFIX = /^wh(?:sec|pk|sk)_/;

export const NOTHING_WRONG: SecretsCheck = { unset: [], faults: [] };

export class Secrets implements KeySource {
  private readonly secrets: ReadonlyArray<Secret>;
  private known: { readonly values: ReadonlyArray<unknown>; readonly keys: Keys } | undefined;

  /** Throws `InvalidWebhook` for a list that is empty or too long, a string that is no variable's name, or a bad literal. */
  constructor(
    private readonly provider: string,
    secret: Secret | ReadonlyArray<Secret>,
    private readonly format: SecretFormat,
    /** What the option is called that they were given in. */
    private readonly option = "secret",
  ) {
    this.secrets = isList(secret) ? secret : [secret];
    if (this.secrets.length === 0 || this.secrets.length > SECRETS_MAX)
      throw this.wrong(`give 1 to ${SECRETS_MAX} ${option}s`);
    for (const each of this.secrets) this.check(each);
  }

  /** The environment variables that hold them; literals have none, and a public key can't be made up. */
  get names(): ReadonlyArray<string> {
    return isPublic(this.format) ? [] : this.secrets.filter((each) => typeof each === "string");
  }

  readonly keysFor = (request: WebhookRequest): Keys => this.keys(request.env);

  /** A public key that is not set leaves its route `Misconfigured`, and is no reason not to start. */
  readonly checkIn = (env: Readonly<Record<string, unknown>>): SecretsCheck => {
    if (isPublic(this.format)) return NOTHING_WRONG;
    if (this.secrets.every((each) => valueOf(each, env) === undefined))
      return { unset: [this.names], faults: [] };
    const keys = this.keys(env);
    return keys._tag === "Misconfigured" ? { unset: [], faults: [keys.message] } : NOTHING_WRONG;
  };

  /**
   * The keys as of this environment. In a list a variable that is not set is passed over as long as
   * another is, so an old secret's variable can go when its rotation is over; one that is set but
   * empty or unreadable is `Misconfigured` in any case.
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
        "a string is the name of an environment variable, and this is none; to give the secret itself write { value: … }",
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
