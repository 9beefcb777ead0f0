/**
 * How the keys of jobs begin, before a colon: with the name of the lane that runs them (`Lanes`).
 * All other jobs are items of the agent's queue, or due schedules.
 */

export const CALL_KEYS = "call";
export const MAIL_KEYS = "mail-out";
export const SIGNAL_KEYS = "signal-out";
export const WEBHOOK_KEYS = "webhook-out";

const SENT = new Set([CALL_KEYS, MAIL_KEYS, SIGNAL_KEYS, WEBHOOK_KEYS]);

/**
 * Whether the job was asked for by others, or sends to them: its row stays where an agent is put
 * back (`core/restore/keepSent`).
 */
export const isOfSent = (key: string): boolean => SENT.has(key.slice(0, key.indexOf(":")));
