/**
 * Transforms that make an agent's name of an entity: `escapedSlug`, which keeps entities apart, and `slug`, the rule of
 * `interface.md` §4.1, which does not. Given to `body`, `path` and `header` in a route.
 */
import { InvalidWebhook } from "../../core/webhook/WebhookRoute.ts";
import { slugOf } from "../../core/webhook/sluggedEntity.ts";
import type { Transform } from "./entities.ts";

/** A transform as it is, and one that lets entities share an agent: `slug({ merge: true })`. */
export interface Slug {
  (value: string): string;
  (options: { readonly merge: true }): Transform;
}

const merged: Transform = (value) => slugOf(value);

/**
 * Lower case, each `/` a `-`: `Acme/Widgets` → `acme-widgets`.
 *
 * **It is not injective**: `ac-me/site` and `ac/me-site` both become `ac-me-site`. An agent belongs to the first entity that
 * reaches it by `slug`; webhooks of any other are refused with 409 and counted, in any case of letters. Prefer `escapedSlug`.
 * `slug({ merge: true })` lets such entities share an agent. A function of yours that calls `slug` is not watched over.
 */
export const slug = ((value: string | { readonly merge: true }): string | Transform => {
  if (typeof value === "string") return slugOf(value);
  if (typeof value === "object" && value !== null && value.merge === true) return merged;
  throw new InvalidWebhook({
    message: `slug: give the function itself, as in body("repository.full_name", slug), or slug({ merge: true })`,
  });
}) as Slug;

const utf8 = new TextEncoder();

/**
 * Injective and safe in URLs: `Acme/My Site` → `acme~my$20site`. Lower case, for providers write one name in several cases;
 * `[a-z0-9._-]` stays, `/` becomes `~`, and each byte of the UTF-8 of anything else `$` and two hexadecimal digits. `.` and
 * `..`, which URLs do without, are escaped whole.
 */
export const escapedSlug: Transform = (value) => {
  const lower = value.toLowerCase();
  if (lower === "." || lower === "..") return lower.replaceAll(".", "$2e");
  return lower.replaceAll(/[^a-z0-9._-]/gu, (char) => (char === "/" ? "~" : escaped(char)));
};

const HEX = 16; // the base of an escape's digits

const escaped = (char: string): string =>
  Array.from(utf8.encode(char), (byte) => `$${byte.toString(HEX).padStart(2, "0")}`).join("");
