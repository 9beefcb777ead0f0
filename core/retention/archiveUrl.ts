/** Checks the URL of an archive (`--archive`). `services/archive/openArchive` opens it. */

const EXAMPLE = "file:///var/lib/agents-archive";

/** Returns what is wrong with it, in words; undefined for one that can be opened. */
export function archiveFault(url: string): string | undefined {
  if (!URL.canParse(url) || new URL(url).protocol !== "file:")
    return `give a folder's URL, as in ${EXAMPLE}`;
  if (new URL(url).host !== "") return `a file's URL has three slashes: ${EXAMPLE}`;
  return undefined;
}
