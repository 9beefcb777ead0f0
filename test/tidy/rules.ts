/**
 * The rules of the house style that a program can check, one function each, from files to findings.
 * Each finding says where, and what to do. `layering`, `circles`, `deadFiles` and `deadExports`
 * look at imports, `citations` at what comments and pages cite.
 */
import { posix } from "node:path";
import { circles } from "./circles.ts";
import { citations, retiredWords, type Repository } from "./citations.ts";
import { deadExports } from "./deadExports.ts";
import { deadFiles } from "./deadFiles.ts";
import { CLOCK_FILES, SERVICE_FOLDERS, TEST_FOLDERS } from "./folders.ts";
import { layering } from "./layering.ts";
import { lineOf, type SourceFile } from "./SourceFile.ts";

export interface Finding {
  readonly path: string;
  readonly line: number;
  /** What is wrong and what to do. */
  readonly message: string;
}

/** A rule sees all files, because some look from one to another. */
export interface Rule {
  readonly name: string;
  readonly check: (
    files: ReadonlyArray<SourceFile>,
    entries: ReadonlySet<string>,
    repository: Repository,
  ) => Finding[];
}

/** Think again at 300 (rule 5); past this the file has more than one reason to exist. */
const LINES_MAX = 400;
/** Files past it, each with the one reason why. */
const LONG_FILES: Readonly<Record<string, string>> = {
  "core/agent/Agent.ts": "the contract of every public method, each with one line that delegates",
};
/** As prettier formats code. */
const COLUMNS_MAX = 100;
/** A list of files that a reader still takes in at one look. */
const FOLDER_FILES_MAX = 30;
/** A suite is a list of rules, read by their titles: its length hides less. */
const TEST_LINES_MAX = 550;
const HEADER_LINES_MIN = 3; // rule 13, delimiters included
/** One line says all of a file that fits on a screen. */
const SMALL_FILE_LINES = 80;
/** Rule 13 says 12; the two delimiters come on top. */
const HEADER_LINES_MAX = 14;
/** With numbered invariants (rule 14), which belong in the header. */
const HEADER_LINES_NUMBERED_MAX = 22;

const inSource = (path: string): boolean => /^(?:schemas|core|services)\//.test(path);

export const RULES: ReadonlyArray<Rule> = [
  { name: "layers are imported in one direction only (rules 1-3)", check: perFile(layering) },
  {
    name: "no file or folder imports itself by way of others (type imports count)",
    check: circles,
  },
  {
    name: "no file or folder is named for being left over (rule 4)",
    check: perFile(({ path }) =>
      /(?:^|\/)(?:utils?|commons?|helpers?|misc|shared|lib)(?:\/|\.)|\/types\.ts$/i.test(path)
        ? [at(1, "name it after the noun or the verb that it holds")]
        : [],
    ),
  },
  {
    name: `no file is longer than ${LINES_MAX} lines (rule 5)`,
    check: perFile(({ path, text }) => {
      const lines = text.trimEnd().split("\n").length;
      if (LONG_FILES[path] !== undefined) return [];
      const max = path.startsWith("test/") ? TEST_LINES_MAX : LINES_MAX;
      const message = `${lines} lines: split it by phase, by role, or pure from effectful`;
      return lines > max ? [at(max, message)] : [];
    }),
  },
  { name: `no folder has more than ${FOLDER_FILES_MAX} files`, check: crowdedFolders },
  {
    name: "tests lie in folders named after the sources (or say what they are)",
    check: testFolders,
  },
  { name: `comments end at ${COLUMNS_MAX} columns (rule 5)`, check: perFile(wideComments) },
  {
    name: "a comment begins with its subject (Voice)",
    check: perFile(({ path, text }) =>
      /^(?:core|schemas|services)\//.test(path)
        ? places(text, /(?:\/\*\*|\/\/) Of [a-z]+ [^,\n]*\n/g, "begin with what it is of")
        : [],
    ),
  },
  { name: "a class has `#` members or `private` ones", check: perFile(mixedPrivacy) },
  { name: "every file opens with what it owns (rule 13)", check: perFile(header) },
  { name: "each numeric constant carries its reason (rule 17)", check: perFile(constants) },
  { name: "time, randomness and ids come from the Time service (rule 24)", check: perFile(clock) },
  {
    name: "nothing is left to do later in a comment (rule 17)",
    check: perFile(({ text }) =>
      places(text, /\b(?:TO[D]O|FIX[M]E)\b/g, "do it now, or file it as an issue and delete this"),
    ),
  },
  {
    name: "no value has the type any (rule 28)",
    check: perFile(({ code, text }) => [
      ...places(
        code,
        /(?:[:<,|&(]|\b(?:as|extends|=))\s*any\b(?!\s*[:(])/g,
        "say its type, or use unknown and check it",
      ),
      ...places(
        text,
        /@ts-(?:ignore|nocheck)\b/g,
        "fix the type, or use @ts-expect-error with the reason",
      ),
    ]),
  },
  {
    name: "no test is skipped, and none runs alone (rule 36)",
    check: perFile(({ code, path }) =>
      path.startsWith("test/")
        ? places(code, /\b(?:it|test|describe)\.(?:skip|only|todo)\b/g, "make it run, or delete it")
        : [],
    ),
  },
  { name: "every file is used (dead files)", check: deadFiles },
  { name: "every export is imported by another file", check: deadExports },
  {
    name: "nothing is cited that is not there",
    check: (files, _entries, repository) => citations(files, repository),
  },
  { name: "no retired word is an identifier", check: perFile(retiredWords) },
  { name: "subscriptions at the broker are guarded", check: perFile(rawSubscriptions) },
];

const at = (line: number, message: string): Omit<Finding, "path"> => ({ line, message });

function perFile(check: (file: SourceFile) => ReadonlyArray<Omit<Finding, "path">>): Rule["check"] {
  return (files) =>
    files.flatMap((file) => check(file).map((finding) => ({ path: file.path, ...finding })));
}

/** A constructor can only be `private`. */
function mixedPrivacy({ code }: SourceFile): Omit<Finding, "path">[] {
  const classes = [...code.matchAll(/^(?:export )?(?:abstract )?class .*$/gm)];
  return classes.flatMap(({ index }, n) => {
    const text = code.slice(index, classes[n + 1]?.index);
    const keyword = /^ {2}private (?!constructor)/m.exec(text);
    if (keyword === null || !/^ {2}(?:\w+ )*\*?#\w/m.test(text)) return [];
    const message = "`private` beside `#`: an object that apps hold has `#`, others `private`";
    return [{ line: lineOf(code, index + keyword.index), message }];
  });
}

/** Lines of comments alone. A drawn layout (four blanks) and an address can't be wrapped. */
function wideComments({ text }: SourceFile): Omit<Finding, "path">[] {
  return text.split("\n").flatMap((line, at0) => {
    const comment = /^\s*(?:\/\*\*|\*|\/\/)( .*)?$/.exec(line);
    if (comment === null || line.length <= COLUMNS_MAX) return [];
    if (/^ {4}|^ *(?:oxlint|\|)/.test(comment[1] ?? "") || /\S{70}/.test(line)) return [];
    return [at(at0 + 1, `${line.length} columns: wrap the comment`)];
  });
}

function crowdedFolders(files: ReadonlyArray<SourceFile>): Finding[] {
  const counts = new Map<string, number>();
  for (const folder of files.map(({ path }) => posix.dirname(path)))
    counts.set(folder, (counts.get(folder) ?? 0) + 1);
  return [...counts]
    .filter(([folder, count]) => folder !== "." && count > FOLDER_FILES_MAX)
    .map(([path, count]) => ({
      path,
      line: 1,
      message: `${count} files: divide it by what a reader looks for`,
    }));
}

/** A test's folder is a folder of the sources, or stands in `TEST_FOLDERS`. */
function testFolders(files: ReadonlyArray<SourceFile>): Finding[] {
  const sources = new Set(
    files.flatMap(({ path }) => {
      const [layer, folder, file] = path.split("/");
      if (layer === "schemas") return ["schemas"];
      return file !== undefined && (layer === "core" || layer === "services") ? [folder!] : [];
    }),
  );
  return files.flatMap(({ path }) => {
    const [layer, folder, file] = path.split("/");
    if (layer !== "test" || file === undefined) return [];
    if (sources.has(folder!) || TEST_FOLDERS[folder!] !== undefined) return [];
    const message = `test/${folder} is no folder of the sources: name it after one, or say in test/tidy/folders.ts what it is`;
    return [{ path, line: 1, message }];
  });
}

function places(text: string, pattern: RegExp, remedy: string): Omit<Finding, "path">[] {
  return [...text.matchAll(pattern)].map((match) =>
    at(lineOf(text, match.index), `"${match[0].trim()}": ${remedy}`),
  );
}

const SUBSCRIBE = "services/nats/client/subscribe.ts";

function rawSubscriptions({ path, code }: SourceFile): Omit<Finding, "path">[] {
  if (!path.startsWith("services/nats/") || path === SUBSCRIBE) return [];
  return places(code, /\bclient\.subscribe\(/g, `use ${SUBSCRIBE}, which guards the read loop`);
}

function header({ path, text }: SourceFile): Omit<Finding, "path">[] {
  if (!/^(?:core|services)\//.test(path) || !path.endsWith(".ts")) return [];
  const comment = /^(?:#!.*\n)?(\/\*\*\s[^]*?\*\/)/.exec(text)?.[1];
  const lines = comment?.split("\n").length ?? 0;
  const isSmall = text.split("\n").length <= SMALL_FILE_LINES;
  const min = isSmall ? 1 : HEADER_LINES_MIN;
  const max = / \* 1\. /.test(comment ?? "") ? HEADER_LINES_NUMBERED_MAX : HEADER_LINES_MAX;
  if (lines >= min && lines <= max) return [];
  const what = comment === undefined ? "no header" : `a header of ${lines} lines`;
  return [
    at(
      1,
      `${what}: open with /** … */ of 3-12 lines: what it owns, what it leaves to whom, who feeds it, whom it feeds`,
    ),
  ];
}

/** How a name ends that holds a limit, a time or a default: a number that somebody chose. */
const CHOSEN = /_(?:MS|SECONDS|BYTES|MAX|MIN|DEFAULT|LINES|ROWS|KEPT|TIMES|COUNT|SIZE)$/;

/**
 * Simple form: a constant in capitals with a number has a comment on its line or right above it or
 * its group. What its name says is enough for a version, a character code (0x…), a conversion
 * (…_PER_…), and a list of another's codes: several in a row, none of them a chosen number.
 */
function constants({ path, text }: SourceFile): Omit<Finding, "path">[] {
  if (!inSource(path)) return [];
  const findings: Omit<Finding, "path">[] = [];
  let group: Array<{ readonly line: number; readonly text: string; readonly name: string }> = [];
  let before = "";
  for (const [index, line] of [...text.split("\n"), ""].entries()) {
    const name = constantIn(line);
    if (name !== undefined && !/\/[/*]/.test(line)) {
      group.push({ line: index + 1, text: line.trim(), name });
      continue;
    }
    const isExplained = /(?:\*\/|\/\/.*|\/\*.*)\s*$/.test(before);
    const isList = group.length > 1 && !group.some((each) => CHOSEN.test(each.name));
    if (!isExplained && !isList)
      for (const each of group)
        findings.push(
          at(each.line, `${each.text} has no reason: say why this number, in a comment above it`),
        );
    group = [];
    before = line;
  }
  return findings;
}

function constantIn(line: string): string | undefined {
  const pattern = /^\s*(?:export |static |readonly )*(?:const )?([A-Z][A-Z0-9_]+)\s*=\s*-?[\d.]/;
  const name = pattern.exec(line)?.[1];
  return name === undefined || /_VERSION$|_PER_/.test(name) || line.includes("= 0x")
    ? undefined
    : name;
}

const CLOCK =
  /\bDate\.now\b|\bnew Date\(\s*\)|\bMath\.random\b|\brandomUUID\b|\b(?:setTimeout|setInterval|setImmediate)\b|\bperformance\.now\b/g;

function clock({ path, code }: SourceFile): Omit<Finding, "path">[] {
  if (!inSource(path) || path in CLOCK_FILES) return [];
  const folder = /^services\/([^/]+)\//.exec(path)?.[1];
  if (folder !== undefined && SERVICE_FOLDERS[folder]?.clock !== undefined) return [];
  return places(code, CLOCK, "take it from core/time/Time.ts, so that tests can move it");
}
