/**
 * The mark of a load in the URLs of a module's files (`services/module/moduleHooks`, rule 2). Where
 * a release of Node runs TypeScript itself, it is in stacks and in places of paused code, too:
 * people see paths without it.
 */
const MARK = /\?agents-load=\d+/g;

export const withoutLoadMark = (text: string): string => text.replaceAll(MARK, "");
