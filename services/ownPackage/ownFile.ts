/**
 * Where a file of this package is: in the sources for code that runs from them, and in `dist` for
 * built code, whose modules are not at their own paths (rule 2 of `package/bundle`).
 */

const HERE = import.meta.url;
const IN_SOURCE = HERE.endsWith(".ts");

/** The folder of `schemas`, `core` and `services`. */
export const ownFolder: string = IN_SOURCE
  ? new URL("../../", HERE).href
  : HERE.slice(0, HERE.lastIndexOf("/dist/") + "/dist/".length);

/** The folder of package.json. */
export const packageFolder: string = IN_SOURCE ? ownFolder : new URL("../", ownFolder).href;

/** `path` is that of a source without its ending, such as `services/platform/index`. */
export const ownFile = (path: string): URL =>
  new URL(`${path}${IN_SOURCE ? ".ts" : ".js"}`, ownFolder);

/** `path` is that of a file which exists only in `dist`, such as `console/page.js`. */
export const builtFile = (path: string): URL => new URL(`dist/${path}`, packageFolder);
