/**
 * Tells the tables of the library, and SQLite's own, from those that an agent's code has made. Code
 * may attach triggers to them, refer to their rows, and read them.
 */
const OWN = /^(?:svc_agents_|cf_agents_|sqlite_)/;

export const isOwnTable = (name: string): boolean => OWN.test(name);
