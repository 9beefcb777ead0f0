/**
 * Which files of a folder of static files are never served: those that its `.assetsignore` names,
 * in the syntax of `.gitignore`, and what configures the reference's platform. `Assets` asks for
 * each file that it found, so a caller chooses among names that exist. Pure.
 *
 * 1. The last pattern that matches decides. Nothing in an ignored folder comes back by a `!`.
 * 2. A pattern with a slash before its end starts at the folder; any other matches at each depth.
 */

/** In the folder itself. */
const NEVER = ["_headers", "_redirects", "_worker.js", ".assetsignore"];

interface Pattern {
  readonly isIgnored: boolean;
  readonly isFolder: boolean;
  readonly path: RegExp;
}

export class AssetsIgnore {
  private readonly patterns: ReadonlyArray<Pattern>;

  /** `text`: of `.assetsignore`; empty: there is none. */
  constructor(text: string) {
    this.patterns = text.replace(/^\uFEFF/, "").split(/\r?\n/).flatMap(patternOf); // prettier-ignore
  }

  /** `names`: of the folders from the root on, and of the file. */
  ignores(names: ReadonlyArray<string>): boolean {
    if (NEVER.includes(names[0] ?? "")) return true;
    // Rule 1.
    return names.some((_, i) => this.names(names.slice(0, i + 1).join("/"), i < names.length - 1));
  }

  private names(path: string, isFolder: boolean): boolean {
    const last = this.patterns.findLast(
      (pattern) => (isFolder || !pattern.isFolder) && pattern.path.test(path),
    );
    return last?.isIgnored ?? false;
  }
}

function patternOf(line: string): ReadonlyArray<Pattern> {
  // A blank at the end counts only after a backslash.
  const text = line.replace(/(?<!\\) +$/, "");
  if (text === "" || text.startsWith("#")) return [];
  const isIgnored = !text.startsWith("!");
  const whole = isIgnored ? text : text.slice(1);
  const isFolder = whole.endsWith("/");
  const path = isFolder ? whole.slice(0, -1) : whole;
  // Rule 2.
  const start = path.includes("/") ? "^" : "(?:^|/)";
  try {
    return [{ isIgnored, isFolder, path: new RegExp(`${start}${sourceOf(path.replace(/^\//, ""))}$`, "u") }]; // prettier-ignore
  } catch {
    // A class that is none, like `[z-a]`, matches nothing, as in git.
    return [];
  }
}

const PART = /^\*\*\/|\/\*\*\/|\/\*\*$|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|[^]/gu;

/** The source of a regular expression for a pattern's path. */
const sourceOf = (path: string): string =>
  path.replace(/(?<=^|\/)(?:\*\*\/)+/g, "**/").replace(PART, (part) => {
    if (part === "**/") return "(?:.*/)?";
    if (part === "/**/") return "/(?:.*/)?";
    if (part === "/**") return "/.*";
    if (part.startsWith("*")) return "[^/]*";
    if (part === "?") return "[^/]";
    if (part.length > 2 && part.startsWith("[")) return classOf(part.slice(1, -1));
    return (part.startsWith("\\") ? part.slice(1) : part).replace(/[\\^$.*+?()[\]{}|/]/u, "\\$&");
  });

function classOf(members: string): string {
  const isNot = /^[!^]/.test(members);
  const escaped = (isNot ? members.slice(1) : members).replace(/[\\\][^]/gu, "\\$&");
  return `(?!/)[${isNot ? "^" : ""}${escaped}]`;
}
