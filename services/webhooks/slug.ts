/**
 * Transforms from an entity to an agent's name: `escapedSlug`, which keeps entities apart, and
 * `slug`, the rule of `interface.md` §4.1, which does not. Passed to `body`, `path` and `header` in
 * a route.
 */
import { InvalidWebhook } from "../../core/webhook/WebhookRoute.ts";
import { slugOf } from "../../core/webhook/sluggedEntity.ts";

/** Makes the agent's name from the value found. Pure. An empty result counts as missing. */
export type Transform = (value: string) => string;

/** A transform, or the maker of one that lets entities share an agent: `slug({ merge: true })`. */
export interface Slug {
  (value: string): string;
  (options: { readonly merge: true }): Transform;
}

const merged: Transform = (value) => slugOf(value);

/**
 * Lower case, with each `/` replaced by `-`: `Acme/Widgets` → `acme-widgets`.
 *
 * **Not injective**: `ac-me/site` and `ac/me-site` both become `ac-me-site`. An agent belongs to
 * the first entity that reaches it through `slug`. Webhooks of any other entity are refused with
 * 409 and counted; entities that differ in case only are the same. Prefer `escapedSlug`. `slug({
 * merge: true })` lets such entities share an agent. A function of your own that calls `slug` is
 * not checked. Throws `InvalidWebhook` for an argument that is neither.
 */
export const slug = ((value: string | { readonly merge: true }): string | Transform => {
  if (typeof value === "string") return slugOf(value);
  if (typeof value === "object" && value !== null && value.merge === true) return merged;
  throw new InvalidWebhook({
    message: `slug: pass the function itself, as in body("repository.full_name", slug), or slug({ merge: true })`,
  });
}) as Slug;

const utf8 = new TextEncoder();

/**
 * Injective up to case, and safe in URLs: `Acme/My Site` → `acme~my$20site`. The value is lowered,
 * since providers write one name in several cases. `[a-z0-9._-]` stays; `/` becomes `~`; each UTF-8
 * byte of any other character becomes `$` and two hexadecimal digits. `.` and `..`, which URLs
 * remove, are escaped whole.
 */
export const escapedSlug: Transform = (value) => {
  const lower = value.toLowerCase();
  if (lower === "." || lower === "..") return lower.replaceAll(".", "$2e");
  return lower.replaceAll(/[^a-z0-9._-]/gu, (char) => (char === "/" ? "~" : escaped(char)));
};

const HEX = 16; // the base of an escape's digits

const escaped = (char: string): string =>
  Array.from(utf8.encode(char), (byte) => `$${byte.toString(HEX).padStart(2, "0")}`).join("");
