/** A strict reader of Prometheus's text format (0.0.4): throws at what Prometheus would refuse. */

export interface ParsedSample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ParsedFamily {
  readonly help: string;
  readonly type: string;
  readonly samples: ParsedSample[];
}

const NAME = "[a-zA-Z_:][a-zA-Z0-9_:]*";
const PAIR = `[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\\\\n]|\\\\[\\\\n"])*"`;
const SAMPLE = new RegExp(`^(${NAME})(?:\\{(${PAIR}(?:,${PAIR})*)?\\})? (\\S+)$`);
const ESCAPES: Readonly<Record<string, string>> = { "\\\\": "\\", '\\"': '"', "\\n": "\n" };
const SPECIAL: Readonly<Record<string, number>> = { "+Inf": Infinity, "-Inf": -Infinity, NaN };

const unescape = (text: string): string => text.replace(/\\[\\n"]/g, (pair) => ESCAPES[pair]!);

/** Samples of a histogram are those of its family: `_bucket`, `_sum` and `_count`. */
export function parsePrometheus(text: string): ReadonlyMap<string, ParsedFamily> {
  if (!text.endsWith("\n")) throw new Error("the last line has no end");
  const families = new Map<string, ParsedFamily>();
  const seen = new Set<string>();
  let help: RegExpExecArray | null = null;
  for (const line of text.slice(0, -1).split("\n")) {
    const about = new RegExp(`^# HELP (${NAME}) (.*)$`).exec(line);
    if (about !== null) {
      help = about;
      continue;
    }
    const typed = new RegExp(`^# TYPE (${NAME}) (counter|gauge|histogram)$`).exec(line);
    if (typed !== null) {
      const [, name = "", type = ""] = typed;
      if (help?.[1] !== name || families.has(name)) throw new Error(`out of place: ${line}`);
      families.set(name, { help: unescape(help[2]!), type, samples: [] });
      continue;
    }
    const [, name = "", pairs = "", value = ""] = SAMPLE.exec(line) ?? [];
    const family = families.get(name) ?? families.get(name.replace(/_(?:bucket|sum|count)$/, ""));
    const number = SPECIAL[value] ?? Number(value);
    if (family === undefined || (Number.isNaN(number) && value !== "NaN"))
      throw new Error(`no sample: ${line}`);
    const key = line.slice(0, -value.length);
    if (seen.has(key)) throw new Error(`twice: ${line}`);
    seen.add(key);
    const labels = [...pairs.matchAll(new RegExp(PAIR, "g"))].map(([pair]) => {
      const at = pair.indexOf("=");
      return [pair.slice(0, at), unescape(pair.slice(at + 2, -1))] as const;
    });
    family.samples.push({ labels: Object.fromEntries(labels), value: number });
  }
  return families;
}
