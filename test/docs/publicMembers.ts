/**
 * The public surface of the package, read from the sources of its entries: each exported name with
 * its docstring and its members. Reads the text by prettier's layout: a declaration begins in the
 * first column, a member in the third.
 */
import { readFileSync } from "node:fs";

const ROOT = new URL("../../", import.meta.url);

export interface Member {
  readonly name: string;
  /** The docstring as text; empty without one. */
  readonly doc: string;
  /** TypeScript without the body: one for each overload. */
  readonly signatures: ReadonlyArray<string>;
}

export interface Exported extends Member {
  /** The name under which the entry exports it. */
  readonly exportedAs: string;
  /** Path of its source. */
  readonly path: string;
  readonly members: ReadonlyArray<Member>;
}

const EXPORT = /^export (type )?\{([^}]*)\} from "([^"]+)";$/gm;
const DECLARATION =
  /^export (?:declare )?(?:abstract class|class|interface|type|const|async function|function) ([A-Za-z_]\w*)/;
/** A member's head: its modifiers and its name. */
const MEMBER =
  /^ {2}(?:(?:static|readonly|abstract|override|declare|async|get|set) )*(?:\*\s*)?([A-Za-z]\w*)[?!]?(?=[(:<;=]| =)/;

/** What the entry `services/<entry>/index.ts` exports, in its order. */
export function publicSurface(entry: string): Exported[] {
  const path = `services/${entry}/index.ts`;
  const text = read(path);
  const here = declarationsIn(path);
  const others = [...text.matchAll(EXPORT)].flatMap(([, , names, specifier]) =>
    names!
      .split(",")
      .map((name) => name.trim().replace(/^type /, ""))
      .filter((name) => name !== "")
      .map((name) => exportedFrom(resolve(path, specifier!), name)),
  );
  return [...here, ...others];
}

function exportedFrom(path: string, named: string): Exported {
  const [name, exportedAs = name] = named.split(" as ") as [string, string?];
  const found = declarationsIn(path, name)[0];
  if (found !== undefined) return { ...found, exportedAs };
  // Exported by way of another file.
  for (const [, , names, specifier] of read(path).matchAll(EXPORT))
    for (const inner of names!.split(",").map((one) => one.trim().replace(/^type /, "")))
      if ((inner.split(" as ")[1] ?? inner) === name)
        return { ...exportedFrom(resolve(path, specifier!), inner.split(" as ")[0]!), exportedAs };
  throw new Error(`${path} declares no ${name} in its first column`);
}

/** The declarations that a file exports; only those of the name, if one is given. */
function declarationsIn(path: string, wanted?: string): Exported[] {
  const lines = read(path).split("\n");
  const found: Exported[] = [];
  lines.forEach((line, at) => {
    const name = DECLARATION.exec(line)?.[1];
    if (name === undefined || (wanted !== undefined && name !== wanted)) return;
    const head = headFrom(lines, at);
    const before = found.find((one) => one.name === name);
    const signatures = [...(before?.signatures ?? []), head.text];
    if (before !== undefined) found.splice(found.indexOf(before), 1);
    const doc = docAbove(lines, at) || (before?.doc ?? "");
    const isType =
      head.hasBody && /^export (?:declare )?(?:abstract class|class|interface) /.test(line);
    const members = isType ? membersFrom(lines, head.end).map(documented(path, head.text)) : [];
    members.push(...inherited(path, head.text));
    found.push({ name, exportedAs: name, path, doc, signatures, members });
  });
  return found;
}

/** Members of a base class that is not exported itself: readers meet them here. */
function inherited(path: string, head: string): Member[] {
  const base = / extends (AgentHooks)\b/.exec(head)?.[1];
  if (base === undefined) return [];
  const file = new RegExp(`^import \\{[^;]*\\b${base}\\b[^;]* from "([^"]+)"`, "m").exec(
    read(path),
  )![1]!;
  const { members } = declarationsIn(resolve(path, file), base)[0]!;
  // What it leaves to its subclass is there already.
  return members.filter(({ signatures }) => !signatures[0]!.startsWith("abstract "));
}

/** A member without a docstring has that of the interface which its class implements. */
function documented(path: string, head: string): (member: Member) => Member {
  const name = / implements (\w+)/.exec(head)?.[1];
  const contract = name === undefined ? [] : (declarationsIn(path, name)[0]?.members ?? []);
  return (member) =>
    member.doc === ""
      ? { ...member, doc: contract.find((one) => one.name === member.name)?.doc ?? "" }
      : member;
}

function membersFrom(lines: ReadonlyArray<string>, start: number): Member[] {
  const members = new Map<string, Member>();
  for (let at = start; at < lines.length && !lines[at]!.startsWith("}"); at++) {
    const name = MEMBER.exec(lines[at]!)?.[1];
    // What a base class declares is its own to explain; an abstract one is the user's to write.
    if (name === undefined || name === "constructor" || / (?<!abstract )override /.test(lines[at]!)) continue; // prettier-ignore
    const { text, end, hasBody } = headFrom(lines, at);
    const before = members.get(name);
    const doc = docAbove(lines, at);
    // An implementation's own signature is not one of its overloads.
    const signatures =
      before === undefined
        ? [text]
        : [...before.signatures, ...(hasBody && doc === "" ? [] : [text])];
    members.set(name, { name, doc: [before?.doc, doc].filter(Boolean).join(" "), signatures });
    at = end;
    if (hasBody) while (at < lines.length && !/^ {2}\}/.test(lines[at]!)) at++;
  }
  return [...members.values()];
}

/** A declaration's or member's text up to its body, and the line where that begins or it ends. */
function headFrom(
  lines: ReadonlyArray<string>,
  start: number,
): { readonly text: string; readonly end: number; readonly hasBody: boolean } {
  const indent = /^ */.exec(lines[start]!)![0];
  const taken: string[] = [];
  const isConst = lines[start]!.startsWith("export const ");
  for (let at = start; at < lines.length; at++) {
    const line = lines[at]!.slice(indent.length);
    taken.push(line);
    const isOuter = !line.startsWith(" ");
    if (isConst && isOuter && / =$| = |=>/.test(line)) {
      const head = line.replace(/ =(?: [^(<].*)?$|(?: =>.*)$/, "");
      return { text: clean([...taken.slice(0, -1), head], 0), end: at, hasBody: false };
    }
    const opens = / \{\}?$/.exec(line);
    const isObject = /(?:[:=|&(]|extends \w+<?) \{$/.test(line) && !/^\)?\w*\): \{$/.test(line);
    if (opens !== null && isOuter && !isObject)
      return { text: clean(taken, opens[0].length), end: at, hasBody: opens[0] === " {" };
    const next = lines[at + 1] ?? "";
    if (line.endsWith(";") && !next.startsWith(`${indent} `))
      return { text: clean(taken, 1), end: at, hasBody: false };
  }
  throw new Error(`no end: ${lines[start]}`);
}

/** Without the last characters, words for the compiler, and values that a type says already. */
const clean = (taken: ReadonlyArray<string>, cut: number): string => {
  const text = taken.join("\n");
  return text
    .slice(0, text.length - cut)
    .replace(/^export /, "")
    .replace(/^(?:async|declare) /, "")
    .replace(/^abstract override /, "abstract ");
};

function docAbove(lines: ReadonlyArray<string>, at: number): string {
  let end = at - 1;
  if (lines[end]?.endsWith("*/") !== true) return "";
  let start = end;
  while (!/^\s*\/\*\*/.test(lines[start]!)) start--;
  return lines
    .slice(start, end + 1)
    .map((line) =>
      line
        .replace(/^\s*(?:\/\*\*|\*\/|\*)\s?/, "")
        .replace(/\s*\*\/$/, "")
        .trimEnd(),
    )
    .join("\n")
    .trim();
}

const texts = new Map<string, string>();
function read(path: string): string {
  let text = texts.get(path);
  if (text === undefined) texts.set(path, (text = readFileSync(new URL(path, ROOT), "utf8")));
  return text;
}
const resolve = (from: string, specifier: string): string =>
  new URL(specifier, `file:///${from}`).pathname.slice(1);
