/**
 * The table of providers. A provider is one row, in the file for what its signature covers:
 *
 * - `providers/bodySigned`: the body alone. `providers/timeSigned`: a time and the body.
 * - `providers/urlSigned`: the URL. `providers/keySigned`: signed with a private key.
 * - `providers/hubspot`, `providers/paypal`: schemes that need code of their own.
 *
 * To add a provider:
 *
 * 1. Write `export const acme = provider<VerifierOptions>({ … })` in the file for its scheme, with
 *    the documentation's address. `verifier/SignatureScheme` explains each field. `agents/webhooks`
 *    exports it, and `sign.acme` signs for it, without further code.
 * 2. Add requests that the provider or its library signed to `test/webhooks/vendors.test.ts`, and
 *    the provider to `test/webhooks/everyProvider.ts`.
 * 3. Add its row to the table in `docs/guides/webhooks.md`.
 *
 * `hmac` and `unsigned` (`hmac.ts`) are for senders without a row. This module exports providers
 * and their option types only: all that it exports is public.
 */
export * from "./providers/bodySigned.ts";
export * from "./providers/timeSigned.ts";
export * from "./providers/keySigned.ts";
export * from "./providers/urlSigned.ts";
export { hubspot, type HubspotOptions } from "./providers/hubspot.ts";
export { paypal, type PaypalOptions } from "./providers/paypal.ts";
