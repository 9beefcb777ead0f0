/**
 * Builds the message for an import that this package does not have: a name in one of its entries,
 * or a whole entry. If the reference package has it, the message says so and names a replacement.
 * Pure.
 *
 * `explainImportError` passes the error; the data is in `missingNames`.
 */
import {
  INSTEAD,
  PLATFORM_INSTEAD,
  REFERENCE_ENTRIES,
  REFERENCE_NAMES,
  REFERENCE_VERSION,
} from "./missingNames.ts";
import { NO_PLATFORM_MODULE } from "./moduleHooks.ts";

/** Node has no error code for a name that a module lacks: only the message names it. */
const NO_NAME =
  /^The requested module '(?:turnkeep|agents)(\/[^']*)?' does not provide an export named '([^']+)'/;
/** The same for an entry. The importing file follows, in the form that `moduleHooks` produces. */
const NO_ENTRY =
  /^Package subpath '\.\/([^']+)' is not defined by "exports".*?(?: imported from (.+))?$/;

/** The same for modules of the platform. */
const NO_PLATFORM_NAME =
  /^The requested module '(cloudflare:[^']+)' does not provide an export named '([^']+)'/;

/** Undefined if the error is about something else. Names `file` if the error names no other. */
export function explainMissingImport(
  error: { readonly message: string; readonly stack?: string | undefined; readonly code?: unknown },
  file: string,
): string | undefined {
  const name = NO_NAME.exec(error.message);
  if (name?.[2] !== undefined)
    return missingName(`agents${name[1] ?? ""}`, name[2], placeOf(error.stack) ?? file);
  const [, platform, member] = NO_PLATFORM_NAME.exec(error.message) ?? [];
  if (platform !== undefined && member !== undefined)
    return `${placeOf(error.stack) ?? file}: "${platform}" has no ${member} here${use(PLATFORM_INSTEAD[member])}`;
  const [, specifier, importer] = NO_PLATFORM_MODULE.exec(error.message) ?? [];
  if (specifier !== undefined)
    return `${importer ?? file}: there is no "${specifier}" here${use(PLATFORM_INSTEAD[specifier])}`;
  const entry =
    error.code === "ERR_PACKAGE_PATH_NOT_EXPORTED" ? NO_ENTRY.exec(error.message) : null;
  return entry?.[1] === undefined ? undefined : missingEntry(entry[1], entry[2] ?? file);
}

function missingName(entry: string, name: string, place: string): string {
  const known = REFERENCE_NAMES[entry]?.includes(name) === true;
  const instead = INSTEAD[name] ?? (known ? insteadOf(entry) : undefined);
  return known
    ? `${place}: "${entry}" has no ${name} here: the reference package (${REFERENCE_VERSION}) has it, this one does not (yet)${use(instead)}`
    : `${place}: "${entry}" has no ${name}. If it is a type, write \`import type\``;
}

function missingEntry(path: string, place: string): string {
  const entry = `agents/${path}`;
  return REFERENCE_ENTRIES.includes(path)
    ? `${place}: there is no "${entry}" here: the reference package (${REFERENCE_VERSION}) has it, this one does not (yet)${use(insteadOf(entry))}`
    : `${place}: there is no "${entry}". Check the import's spelling`;
}

const use = (instead: string | undefined): string =>
  instead === undefined ? ". There is nothing here to use instead" : `. Use ${instead}`;

/** The hint for the entry itself, or for the nearest entry above it that has one. */
function insteadOf(entry: string): string | undefined {
  for (let at = entry; at.includes("/"); at = at.slice(0, at.lastIndexOf("/")))
    if (INSTEAD[at] !== undefined) return INSTEAD[at];
  return undefined;
}

/** Node starts a link error's stack with the importing file and line: a URL, or else a path. */
const placeOf = (stack: string | undefined): string | undefined => {
  const [, url, path, line] =
    /^(?:(file:[^?\n]+?)(?:\?[^:\n]*)?|(\/[^\n]+)):(\d+)\n/.exec(stack ?? "") ?? [];
  const from = url === undefined ? path : decodeURIComponent(new URL(url).pathname);
  return from === undefined ? undefined : `${from}:${line}`;
};
