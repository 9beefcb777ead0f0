/**
 * Hides fields of a webhook's body, by paths that its route or its agent's class declares: `redact:
 * ["customer.email", "card.*"]`. The agent's code has the body as it came; what is kept of it (the
 * cause in the journal, a dead letter) has `REDACTED` in the place of each such field, and texts
 * that the turn leads to (errors, log lines, spans) lose the values (`conceal`).
 *
 * 1. A path is names with dots between them. `*` is any name or index. A list is looked through:
 *    `items.email` is the field of each item.
 * 2. JSON can be read, whatever content type its sender gives it: the agent's code may do the same.
 *    So can forms, where `customer[email]` and `customer.email` are the field `customer.email`, and
 *    JSON in a form's value (`payload.user.name`). Any other body is hidden whole, and so is JSON
 *    that is nested too deeply to be followed: nobody can say where the fields are in it.
 */
import { withoutCutEdges } from "../errors/thrown.ts";
import type { InboxEnvelope } from "../../schemas/InboxEnvelope.ts";

/** Shorter texts stand in others by chance. */
const VALUE_LENGTH_MIN = 4;
export const REDACTED = "REDACTED";
/** What replacing shorter values within a part of a value can make of the part's length. */
const GROWTH_MAX = REDACTED.length / VALUE_LENGTH_MIN;
/** Leaves of hidden fields, as they stand in texts (`ESCAPES`). Each is looked for in each text. */
const VALUES_MAX = 500;

interface Hidden {
  /** The same bytes where nothing is hidden. */
  readonly body: Uint8Array;
  /** The texts that were hidden, the longest first. */
  readonly values: ReadonlyArray<string>;
}

/** What is kept of a text, and the values that were hidden (`conceal`). */
interface ShownText {
  readonly text: string;
  readonly hidden: ReadonlyArray<string>;
}

const NOTHING: ReadonlyArray<string> = [];
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const encoder = new TextEncoder();

/** Whether it is a path of rule 1. */
export const isFieldPath = (path: string): boolean => path.split(".").every((name) => name !== "");

/** What is kept of an input. `ofClass`: the paths of its agent's class. */
export function hideFields(
  { head, body }: InboxEnvelope,
  ofClass: ReadonlyArray<string> = NOTHING,
): Hidden {
  const ofRoute = head.redact ?? NOTHING;
  if (head.kind !== "webhook" || ofClass.length + ofRoute.length === 0 || body.length === 0)
    return { body, values: NOTHING };
  const type = head.headers?.["content-type"] ?? "";
  return hide(body, [...ofClass, ...ofRoute], { isForm: /form-urlencoded/i.test(type) });
}

/** A socket's message, or call of a method, as text; its arguments and state have the fields. */
export function hideInMessage(text: string, paths: ReadonlyArray<string> = NOTHING): ShownText {
  if (paths.length === 0) return { text, hidden: NOTHING };
  const within = paths.flatMap((path) => [path, `args.${path}`, `state.${path}`]);
  const { body, values } = hide(encoder.encode(text), within);
  return { text: decoder.decode(body), hidden: values };
}

/**
 * The text without the values, the longest of which is the first. Long texts are cut where they are
 * read (`thrown`), perhaps by another process, so part of a value may stand at a cut.
 */
export function conceal(text: string, values: ReadonlyArray<string>): string {
  let concealed = text;
  for (const value of values) concealed = concealed.replaceAll(value, REDACTED);
  const [longest = ""] = values;
  return withoutCutEdges(concealed, longest.length * GROWTH_MAX);
}

function hide(body: Uint8Array, paths: ReadonlyArray<string>, { isForm = false } = {}): Hidden {
  const hiding = new Hiding(paths);
  const text = textOf(body);
  let hidden: string | undefined;
  try {
    if (text !== undefined) hidden = hiding.json(text) ?? (isForm ? hiding.form(text) : undefined);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    hidden = undefined; // nested deeper than the stack reaches
  }
  if (hidden !== undefined && hidden === text) return { body, values: NOTHING };
  const values = [...hiding.values].toSorted((a, b) => b.length - a.length).slice(0, VALUES_MAX);
  return { body: encoder.encode(hidden ?? REDACTED), values };
}

function textOf(body: Uint8Array): string | undefined {
  try {
    return decoder.decode(body);
  } catch {
    return undefined;
  }
}

class Hiding {
  readonly values = new Set<string>();
  private readonly paths: ReadonlyArray<ReadonlyArray<string>>;
  private changed = false;

  constructor(paths: ReadonlyArray<string>) {
    this.paths = paths.map((path) => path.split("."));
  }

  /** Undefined for text that is not JSON. */
  json(text: string): string | undefined {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return undefined;
    }
    for (const path of this.paths) value = this.in(value, path);
    return this.changed || hasShadowed(text, value) ? JSON.stringify(value) : text;
  }

  form(text: string): string {
    const pairs = [...new URLSearchParams(text)].map(([name, value]): [string, string] => [
      name,
      this.field(name, value),
    ]);
    return this.changed ? new URLSearchParams(pairs).toString() : text;
  }

  private field(name: string, value: string): string {
    const names = name.replaceAll("]", "").split(/[[.]/);
    const paths = this.paths
      .map((path) => restOf(path, names))
      .filter((rest) => rest !== undefined);
    if (paths.some((rest) => rest.length === 0)) return String(this.hidden(value));
    if (paths.length === 0) return value;
    let parsed: unknown;
    try {
      parsed = JSON.parse(value);
    } catch {
      // A plain value has no fields.
      return value;
    }
    for (const rest of paths) parsed = this.in(parsed, rest);
    this.changed ||= hasShadowed(value, parsed);
    return JSON.stringify(parsed);
  }

  /** The value with the field hidden, where it has it. */
  private in(value: unknown, path: ReadonlyArray<string>): unknown {
    const [name, ...rest] = path;
    if (name === undefined) return this.hidden(value);
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) {
      const isIndex = name === "*" || /^\d+$/.test(name);
      if (!isIndex) return value.map((item) => this.in(item, path));
      return value.map((item, n) =>
        name === "*" || n === Number(name) ? this.in(item, rest) : (item as unknown),
      );
    }
    return Object.fromEntries(
      Object.entries(value).map(([key, field]) => [
        key,
        name === "*" || key === name ? this.in(field, rest) : (field as unknown),
      ]),
    );
  }

  private hidden(value: unknown): unknown {
    this.changed = true;
    this.collect(value);
    return value === null ? null : REDACTED;
  }

  private collect(value: unknown): void {
    if (typeof value === "object" && value !== null) {
      for (const field of Object.values(value)) this.collect(field);
      return;
    }
    const text = String(value);
    if (typeof value === "boolean" || value === null || text.length < VALUE_LENGTH_MIN) return;
    this.values.add(text);
    for (const write of ESCAPES) this.values.add(write(text));
  }
}

/**
 * Whether an object in the text has two members of one name. Only the last counts, so the field may
 * be in the first, where nothing looks for it. In valid JSON a text before a colon is a name.
 */
function hasShadowed(text: string, value: unknown): boolean {
  const colon = /\s*:/y;
  let names = 0;
  for (let from = text.indexOf('"'); from !== -1;) {
    const end = endOfText(text, from + 1);
    colon.lastIndex = end;
    if (colon.test(text)) names++;
    from = text.indexOf('"', end);
  }
  return names !== namesIn(value);
}

/** The offset after the quotation mark that ends it; those after a backslash do not. */
function endOfText(text: string, from: number): number {
  for (let at = text.indexOf('"', from); at !== -1; at = text.indexOf('"', at + 1)) {
    let escapes = at;
    while (text[escapes - 1] === "\\") escapes--;
    if ((at - escapes) % 2 === 0) return at + 1;
  }
  return text.length;
}

function namesIn(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  const within = Object.values(value).reduce<number>((sum, each) => sum + namesIn(each), 0);
  return Array.isArray(value) ? within : within + Object.keys(value).length;
}

/**
 * What remains of the path within a form's field of these names; empty if all of it is hidden,
 * undefined if the field is another.
 */
function restOf(
  path: ReadonlyArray<string>,
  names: ReadonlyArray<string>,
): ReadonlyArray<string> | undefined {
  const [first, ...rest] = path;
  const [name, ...deeper] = names;
  if (first === undefined || name === undefined) return path;
  if (first === "*" || first === name) return restOf(rest, deeper);
  return /^\d*$/.test(name) ? restOf(path, deeper) : undefined;
}

/** How a value stands in other texts: in JSON, in a URL's path, its query, and a form. */
const ESCAPES: ReadonlyArray<(text: string) => string> = [
  (text) => JSON.stringify(text).slice(1, -1),
  (text) => encodeURI(text.toWellFormed()),
  (text) => encodeURIComponent(text.toWellFormed()),
  (text) => new URLSearchParams({ "": text }).toString().slice(1),
];
