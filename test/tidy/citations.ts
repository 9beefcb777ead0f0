/**
 * Resolves what comments and pages cite: files, sections of the reference, invariants, numbered
 * rules of headers, and links of Markdown with their anchors. Also knows the words that were
 * retired.
 *
 * 1. A path below a source folder or `docs` is a file or a folder, with or without `.ts`. A member
 *    may follow (`core/turn/Committer.afterFence`). Where the file has moved, the finding says
 *    where to.
 * 2. `protocol.md` §n and `interface.md` §n are headings of `docs/reference`.
 * 3. I1, I2 and so on are rows of the invariants' table in `docs/evidence/reliability.md`.
 * 4. "Rule n" in a header's file, and "`File`, n", are numbered rules of that header.
 */
import type { Finding } from "./rules.ts";
import { lineOf, type SourceFile } from "./SourceFile.ts";

/** Everything that git has, as the citations need it. */
export interface Repository {
  readonly paths: ReadonlySet<string>;
  /** Pages and settings: Markdown, configuration, scripts of `deploy`. */
  readonly texts: ReadonlyArray<{ readonly path: string; readonly text: string }>;
}

const PATH =
  /(?<![\w./@~-])((?:schemas|core|services|test|docs|deploy|examples)\/[A-Za-z0-9_./-]*[A-Za-z0-9_])/g;
const SECTIONS = /\b(protocol|interface)\.md`?((?:[,;]?\s+(?:and )?§[\d.]*\d(?:-§?[\d.]*\d)?)+)/g;
const INVARIANT = /\bI(\d+)\b/g;
const OWN_RULE = /\brules? (\d+)\b(?! of\b)/gi;
const RULE_OF = /`(\w+)`, (?:rule )?(\d+)\b/g;
const LINK = /\]\(([^)\s]+)\)/g;
const SOURCE = /^(?:schemas|core|services)\//;
/** They cite what is planted, or files of other projects' tests. */
const NOT_CITING = /^test\/tidy\b/;

type Where = Omit<Finding, "path">;
interface Cited {
  readonly path: string;
  /** Comments of a source file, or a whole page, of the same length: places are the file's. */
  readonly text: string;
}

export function citations(files: ReadonlyArray<SourceFile>, repository: Repository): Finding[] {
  const index = new Index(files, repository);
  const sources = files.map((file) => ({ path: file.path, text: commentsOf(file) }));
  const pages = repository.texts;
  const findings: Finding[] = [];
  const add = ({ path }: Cited, found: ReadonlyArray<Where>): void =>
    void findings.push(...found.map((each) => ({ path, ...each })));
  for (const file of [...sources, ...pages]) {
    if (NOT_CITING.test(file.path)) continue;
    add(file, index.paths(file));
    add(file, index.sections(file));
    add(file, index.invariants(file));
    if (SOURCE.test(file.path)) add(file, index.rules(file));
    if (file.path.endsWith(".md")) add(file, index.links(file));
  }
  for (const [i, file] of files.entries())
    if (!NOT_CITING.test(file.path)) add(file, index.pagesInStrings(file, sources[i]!.text));
  return findings;
}

class Index {
  private readonly known: ReadonlySet<string>;
  private readonly folders = new Set<string>();
  private readonly byName = new Map<string, string[]>();
  private readonly pages: ReadonlyMap<string, string>;
  /** Numbers of a header's rules, by the file's name without `.ts`. */
  private readonly headers = new Map<string, ReadonlySet<string>>();

  constructor(files: ReadonlyArray<SourceFile>, { paths, texts }: Repository) {
    this.known = new Set([...paths, ...files.map(({ path }) => path)]);
    this.pages = new Map(texts.map(({ path, text }) => [path, text]));
    for (const path of this.known) {
      const parts = path.split("/");
      for (let n = 1; n < parts.length; n++) this.folders.add(parts.slice(0, n).join("/"));
      const name = parts.at(-1)!;
      this.byName.set(name, [...(this.byName.get(name) ?? []), path]);
    }
    for (const { path, text } of files)
      if (SOURCE.test(path)) this.headers.set(nameOf(path), rulesOf(text));
  }

  paths({ text }: Cited): Where[] {
    return [...text.matchAll(PATH)].flatMap((match) => {
      const path = match[1]!;
      const after = text.slice(match.index + match[0].length);
      // A pattern names no file. A line break of a diagram does not make one.
      if (this.resolves(path) || /^(?:[*…{]|<(?!br))/.test(after)) return [];
      const name = path.split("/").at(-1)!;
      const names = new Set([name, `${name}.ts`, `${name.replace(/\.\w+$/, "")}.ts`]);
      const moved = [...names].flatMap((each) => this.byName.get(each) ?? []).join(", ");
      const remedy = moved === "" ? "cite what is there" : `is it ${moved}?`;
      return [at(text, match.index, `${path} is not there: ${remedy}`)];
    });
  }

  private resolves(path: string): boolean {
    const bare = path.replace(/\.[a-zA-Z]\w*$/, "");
    const files = [path, `${path}.ts`, `${path}.test.ts`, `${bare}.ts`];
    return files.some((each) => this.known.has(each)) || this.folders.has(path);
  }

  sections({ text }: Cited): Where[] {
    return [...oneLine(text).matchAll(SECTIONS)].flatMap((match) => {
      const page = `docs/reference/${match[1]}.md`;
      const headings = this.pages.get(page) ?? "";
      return [...match[2]!.matchAll(/[\d.]*\d/g)]
        .map(([section]) => section)
        .filter(
          (section) => !new RegExp(`^#+ ${section.replaceAll(".", "\\.")}[. ]`, "m").test(headings),
        )
        .map((section) => at(text, match.index, `${page} has no section ${section}`));
    });
  }

  invariants({ text }: Cited): Where[] {
    const table = this.pages.get("docs/evidence/reliability.md") ?? "";
    return [...text.matchAll(INVARIANT)].flatMap((match) =>
      new RegExp(`^\\| ${match[0]} +\\|`, "m").test(table)
        ? []
        : [at(text, match.index, `docs/evidence/reliability.md has no invariant ${match[0]}`)],
    );
  }

  rules({ path, text }: Cited): Where[] {
    const own = this.headers.get(nameOf(path)) ?? new Set<string>();
    const line = oneLine(text);
    const missing = (
      match: RegExpExecArray,
      rules: ReadonlySet<string>,
      n: string,
      name: string,
    ) =>
      rules.size === 0 || rules.has(n)
        ? []
        : [at(text, match.index, `the header of ${name} has no rule ${n}`)];
    return [
      ...[...line.matchAll(OWN_RULE)].flatMap((match) =>
        missing(match, own, match[1]!, nameOf(path)),
      ),
      ...[...line.matchAll(RULE_OF)].flatMap((match) =>
        missing(match, this.headers.get(match[1]!) ?? new Set(), match[2]!, match[1]!),
      ),
    ];
  }

  links({ path, text }: Cited): Where[] {
    const prose = text.replace(/^```[^]*?^```/gm, blank).replace(/`[^`\n]*`/g, blank);
    return [...prose.matchAll(LINK)].flatMap((match) => {
      const url = match[1]!;
      if (/^[a-z]+:/.test(url)) return [];
      const [file = "", anchor] = url.split("#");
      const target = file === "" ? path : joinPath(path, file);
      if (!this.known.has(target) && !this.folders.has(target))
        return [at(text, match.index, `${url} leads nowhere`)];
      const page = this.pages.get(target);
      if (anchor === undefined || page === undefined || anchorsOf(page).has(anchor)) return [];
      return [at(text, match.index, `${target} has no heading #${anchor}`)];
    });
  }

  /** Pages that errors and log lines name. */
  pagesInStrings({ text }: SourceFile, comments: string): Where[] {
    return [...text.matchAll(/\bdocs\/[\w./-]+\.md\b/g)]
      .filter(({ index, 0: path }) => comments[index] === " " && !this.known.has(path))
      .map(({ index, 0: path }) => at(text, index, `${path} is not there`));
  }
}

/** Retired words, each with what replaces it. Identifiers only: comments may quote old releases. */
const RETIRED: ReadonlyArray<readonly [word: RegExp, instead: string]> = [
  [/\w*[pP]arcel\w*/g, "a batch of requests (RequestBatcher)"],
  [/\w*\bLull\b\w*/g, "OpenExchanges"],
  [/\w*Turnstile\w*/g, "PrioritySemaphore"],
  [/\w*Stranded\w*/g, "StallDetector"],
  [/\b(?:bury|buried)\w*/g, "deadLetter"],
  [/\bletGo\w*/g, "hibernate"],
  [/\w*WebhookOut\w*/g, "PendingWebhook"],
  [/\w*(?:setAside|WhyAside)\w*/g, "quarantine"],
  [/\w*AgentSeat\w*/g, "AgentPorts"],
  [/\w*AgentHome\w*/g, "AgentSupervisor"],
];

export function retiredWords({ path, code }: SourceFile): Where[] {
  if (!/^(?:schemas|core|services|examples)\//.test(path)) return [];
  return RETIRED.flatMap(([word, instead]) =>
    [...code.matchAll(word)].map(({ index, 0: found }) =>
      at(code, index, `"${found}" is retired: ${instead}`),
    ),
  );
}

const at = (text: string, offset: number, message: string): Where => ({
  line: lineOf(text, offset),
  message,
});

const nameOf = (path: string): string =>
  path
    .split("/")
    .at(-1)!
    .replace(/\.tsx?$/, "");
const blank = (text: string): string => text.replace(/[^\n]/g, " ");
/** What a comment says across its lines, of the same length. */
const oneLine = (text: string): string =>
  text.replace(/\n\s*\* /g, (gap) => " ".repeat(gap.length));

/** Comments where they stand, and blanks for everything else. */
function commentsOf({ text, uncommented }: SourceFile): string {
  let comments = "";
  let from = 0;
  for (let i = 1; i <= text.length; i++) {
    const isComment = text[from] !== uncommented[from];
    if (i < text.length && (text[i] !== uncommented[i]) === isComment) continue;
    const part = text.slice(from, i);
    comments += isComment ? part : blank(part);
    from = i;
  }
  return comments;
}

function rulesOf(text: string): ReadonlySet<string> {
  const header = /^(?:#!.*\n)?\/\*\*[^]*?\*\//.exec(text)?.[0] ?? "";
  return new Set([...header.matchAll(/^ \* (\d+)\. /gm)].map(([, number]) => number!));
}

function joinPath(from: string, to: string): string {
  const parts = from.split("/").slice(0, -1);
  for (const part of to.split("/"))
    if (part === "..") parts.pop();
    else if (part !== "." && part !== "") parts.push(part);
  return parts.join("/");
}

/** As GitHub makes them. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = page.replace(/^```[^]*?^```/gm, "").matchAll(/^#+ (.+)$/gm);
  return new Set(
    [...headings].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replace(/[^\p{L}\p{N} _-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}
