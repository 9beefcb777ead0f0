/**
 * The schedules that the runtime itself sets: by the agent's method that each calls. Users' methods
 * neither list nor get them, and they do not count towards `schedulesMax`.
 */

/** Wakes a new owner of running fibers (`Fibers`, rule 2). */
export const FIBER_ALARM = "_checkFibers";
/** Wakes the agent when something that it keeps may have expired (`ExpiryAlarm`). */
export const EXPIRY_ALARM = "_expireKept";

export const OWN_ALARMS: ReadonlySet<string> = new Set([FIBER_ALARM, EXPIRY_ALARM]);
