/**
 * One source file as the tidy rules see it: its text, its text without comments, and its code
 * without comments, strings and regular expressions. All three have the same length and lines, so a
 * place in one is a place in each.
 */
export interface SourceFile {
  /** Relative to the repository, with `/`. */
  readonly path: string;
  readonly text: string;
  /** Comments are blanks. */
  readonly uncommented: string;
  /** The text with blanks in place of comments and of what strings, templates, regexes contain. */
  readonly code: string;
}

export function sourceFile(path: string, text: string): SourceFile {
  return { path, text, ...new Blanker(text).run() };
}

/** Line number, from 1, of an offset. */
export const lineOf = (text: string, offset: number): number =>
  text.slice(0, offset).split("\n").length;

/** A `/` after one of these starts a regular expression, not a division. */
const BEFORE_REGEX =
  /(?:^|[(,=:[!&|?{};+\-*%~^<>]|\b(?:return|typeof|case|in|of|do|else|await|yield))$/;

class Blanker {
  private readonly text: string;
  private uncommented = "";
  private code = "";
  private at = 0;

  constructor(text: string) {
    this.text = text;
  }

  run(): { readonly uncommented: string; readonly code: string } {
    this.script("");
    return { uncommented: this.uncommented, code: this.code };
  }

  /** Code up to `end` at its own brace depth, or to the end of the text. */
  private script(end: string): void {
    let depth = 0;
    while (this.at < this.text.length) {
      const c = this.text[this.at]!;
      const two = c + (this.text[this.at + 1] ?? "");
      if (c === end && depth === 0) return;
      if (c === "{") depth++;
      if (c === "}") depth--;
      if (two === "//") this.skip(this.find(/\n|$/g, 2), "comment");
      else if (two === "/*") this.skip(this.find(/\*\/|$/g, 2, true), "comment");
      else if (c === '"' || c === "'")
        this.skip(
          this.find(c === '"' ? /(?<!\\)(?:\\\\)*["\n]|$/g : /(?<!\\)(?:\\\\)*['\n]|$/g, 1, true),
          "string",
        );
      else if (c === "`") this.template();
      else if (c === "/" && BEFORE_REGEX.test(this.code.trimEnd().slice(-8)))
        this.skip(this.regexEnd(), "string");
      else this.keep(1);
    }
  }

  private template(): void {
    this.keep(1);
    while (this.at < this.text.length) {
      const next = this.find(/[`\\]|\$\{|$/g, 0);
      this.skip(next, "inside");
      const c = this.text[this.at];
      if (c === "\\") this.skip(this.at + 2, "inside");
      else if (c === "$") {
        this.keep(2);
        this.script("}");
        this.keep(1);
      } else {
        this.keep(1);
        return;
      }
    }
  }

  private regexEnd(): number {
    let inClass = false;
    for (let i = this.at + 1; i < this.text.length; i++) {
      const c = this.text[i];
      if (c === "\\") i++;
      else if (c === "\n") return i;
      else if (c === "[") inClass = true;
      else if (c === "]") inClass = false;
      else if (c === "/" && !inClass) return i + 1;
    }
    return this.text.length;
  }

  private find(pattern: RegExp, from: number, past = false): number {
    pattern.lastIndex = this.at + from;
    const match = pattern.exec(this.text)!;
    return match.index + (past ? match[0].length : 0);
  }

  private keep(count: number): void {
    const part = this.text.slice(this.at, this.at + count);
    this.uncommented += part;
    this.code += part;
    this.at += count;
  }

  private skip(to: number, what: "comment" | "string" | "inside"): void {
    const part = this.text.slice(this.at, to);
    const blank = part.replace(/[^\n]/g, " ");
    this.uncommented += what === "comment" ? blank : part;
    // The delimiters of a string stay, so that code keeps its shape.
    this.code +=
      what === "string" && part.length > 1 ? part[0] + blank.slice(1, -1) + part.at(-1) : blank;
    this.at = to;
  }
}
