/**
 * A provider as a module's routes use it: a function from options to a `Verifier`, with the row
 * that drives it. Each file of this folder makes its providers with `provider`; `sign` reads their
 * rows with `schemeOf`, so that a new provider can be signed for without another line of code.
 */
import type { Verifier } from "../../../core/webhook/WebhookRoute.ts";
import type { SignatureScheme } from "../verifier/SignatureScheme.ts";
import { verifierOf, type SchemeOptions } from "../verifier/verifierOf.ts";

const SCHEME: unique symbol = Symbol("scheme");

/** `github`, `stripe`, …: takes the options of a route's `verify` and returns its verifier. */
export interface Provider<Options> {
  /**
   * Throws `InvalidWebhook` for options that can't work: a secret that is a bad literal or not the
   * name of a variable, more than 8 secrets, a tolerance outside of 1 s to 7 days.
   */
  (options: Options): Verifier;
  readonly [SCHEME]: SignatureScheme;
}

/**
 * Makes a provider of its row. `verifier` is for providers whose options have more than the usual
 * fields; it receives the row and returns what `verifierOf` makes of both.
 */
export const provider = <Options extends SchemeOptions>(
  scheme: SignatureScheme,
  verifier: (scheme: SignatureScheme, options: Options) => Verifier = (row, options) =>
    verifierOf(row, options),
): Provider<Options> =>
  Object.assign((options: Options) => verifier(scheme, options), { [SCHEME]: scheme } as const);

/** The row of a provider. */
export const schemeOf = (of: Provider<never>): SignatureScheme => of[SCHEME];
