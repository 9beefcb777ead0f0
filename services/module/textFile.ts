/**
 * Text files as modules (`docs/guides/configuration.md`): which files they are, and the module that
 * stands for one. Shared by the loader of serving processes (`moduleHooks`) and the Vite plugin, so
 * that a module loads in a test as it does there. Pure.
 */

const TEXT = /\.(?:txt|html|svg|sql|md)$/;

/** `path`: of a file, or its URL, without a query. */
export const isTextFile = (path: string): boolean => TEXT.test(path);

/** The source of a module whose default export is the text. */
export const textModule = (text: string): string => `export default ${JSON.stringify(text)};`;
