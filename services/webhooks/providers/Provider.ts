/**
 * A provider as a module's routes use it: a function from options to a `Verifier`, with the row
 * that drives it. Each file of this folder makes its providers with `provider`; `sign` reads their
 * rows with `schemeOf`, so that a new provider can be signed for without another line of code.
 */
import { optionsFault } from "../../../core/errors/checkOptions.ts";
import { InvalidWebhook, type Verifier } from "../../../core/webhook/WebhookRoute.ts";
import { isPublic } from "../verifier/keyOf.ts";
import type { SignatureScheme } from "../verifier/SignatureScheme.ts";
import { verifierOf, type SchemeOptions } from "../verifier/verifierOf.ts";

const SCHEME: unique symbol = Symbol("scheme");

/** `github`, `stripe`, …: takes the options of a route's `verify` and returns its verifier. */
export interface Provider<Options> {
  /**
   * Throws `InvalidWebhook` for options that can't work: one that is not known, a secret that is a
   * bad literal or not the name of a variable, more than 8 secrets, a tolerance outside of 1 s to
   * 7 days.
   */
  (options: Options): Verifier;
  readonly [SCHEME]: SignatureScheme;
}

/** What a provider has besides its row. */
interface Own<Options> {
  /** The names of its own options. Default: none. */
  readonly options?: ReadonlyArray<Exclude<keyof Options & string, keyof SchemeOptions>>;
  /** Receives the row, and returns what `verifierOf` makes of both. Default: `verifierOf`. */
  readonly verifier?: (scheme: SignatureScheme, options: Options) => Verifier;
}

/** Makes a provider of its row. `own` is for providers whose options have more than the usual. */
export function provider<Options extends SchemeOptions>(
  scheme: SignatureScheme,
  { options: own = [], verifier = verifierOf }: Own<Options> = {},
): Provider<Options> {
  const secret = isPublic(scheme.secretFormat) ? [] : ["secret"];
  const known = new Set([...secret, ...own, "replayGuard", "toleranceSeconds", "url"]);
  const make = (options: Options): Verifier => {
    const fault = optionsFault(options, known);
    if (fault !== undefined) throw new InvalidWebhook({ message: `${scheme.provider}: ${fault}` });
    return verifier(scheme, options);
  };
  return Object.assign(make, { [SCHEME]: scheme } as const);
}

/** The row of a provider. */
export const schemeOf = (of: Provider<never>): SignatureScheme => of[SCHEME];
