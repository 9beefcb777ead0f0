/**
 * The rule of `slug` (`interface.md` §4.1), and what it costs: it gives `ac-me/site` and
 * `ac/me-site` one name. So an agent remembers the entity that it was made for, and its mailbox
 * refuses the webhooks of any other. Pure.
 */
import type { PlainAnswer } from "./WebhookRoute.ts";

/** Lower case, each `/` a `-`. */
export const slugOf = (entity: string): string => entity.toLowerCase().replaceAll("/", "-");

/** Providers write one entity in several cases. */
export const isSameEntity = (one: string, other: string): boolean =>
  one === other || one.toLowerCase() === other.toLowerCase();

const REMEDY =
  "give the route escapedSlug, which keeps entities apart, or slug({ merge: true }), which lets them share an agent";

/**
 * The other entity may be a stranger's secret: it is named in the log and in the dead letter only.
 */
export const ENTITY_CONFLICT: Pick<PlainAnswer, "status" | "body"> = {
  status: 409,
  body: `This agent belongs to another entity: slug gives both the same name. To the operator: ${REMEDY}`,
};

export const conflictReason = (entity: string, owner: string): string =>
  `the webhook is for "${entity}", and this agent belongs to "${owner}": slug gives both the same name. Remedy: ${REMEDY}`;
