/**
 * The version of all stored formats together. It is raised when one of them changes so that the
 * release before can't read what this one writes. `agents provision` stores it at the broker, and
 * a process that knows only a smaller one refuses to start there, before it claims anything: it
 * would take what it can't read for damage.
 *
 * If it is absent at the broker, it is 1. Releases older than November 2026 do not look.
 */
export const STORED_FORMATS = 1;
