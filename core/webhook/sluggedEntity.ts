/**
 * The rule of `slug` (`interface.md` §4.1) and the guard that it needs: it maps `ac-me/site` and
 * `ac/me-site` to one name. Therefore an agent remembers the entity that it was created for, and
 * its mailbox refuses webhooks of any other entity. Pure.
 */
import type { PlainAnswer } from "./WebhookRoute.ts";

/** Lower case, with each `/` replaced by `-`. */
export const slugOf = (entity: string): string => entity.toLowerCase().replaceAll("/", "-");

/** Whether two names mean one entity. Case is ignored: providers write one in several cases. */
export const isSameEntity = (one: string, other: string): boolean =>
  one === other || one.toLowerCase() === other.toLowerCase();

const REMEDY =
  "use escapedSlug, which keeps entities apart, or slug({ merge: true }), which lets them share an agent";

/** The answer to the refused webhook. It names no entity, which may be secret; the log does. */
export const ENTITY_CONFLICT: Pick<PlainAnswer, "status" | "body"> = {
  status: 409,
  body: `This agent belongs to another entity: slug maps both to the same name. To the operator: ${REMEDY}`,
};

/** The reason for the log and the dead letter. */
export const conflictReason = (entity: string, owner: string): string =>
  `the webhook is for "${entity}", but this agent belongs to "${owner}": slug maps both to the same name. Remedy: ${REMEDY}`;
