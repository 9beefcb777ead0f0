/**
 * Text of strangers on its way to a terminal or a log: names, payloads and errors may hold escape
 * sequences that move the cursor, set titles or hide text, and bidirectional overrides that reorder
 * it. Applied where lines leave the process (`services/cli/terminal/Terminal`,
 * `services/node/ProcessLog`), so no command has to do it.
 *
 * The form is JSON's, `\u001b`: inside a line of JSON it is the same string, escaped.
 */

/** C0 but tab and line feed, DEL, C1, and what embeds, overrides or isolates a direction. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const UNSAFE = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g;
/** What would begin another line, or another column. */
// oxlint-disable-next-line no-control-regex -- they are what is looked for
const BREAKS = /[\t\n\u2028\u2029]/g;

const escape = (character: string): string =>
  `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;

/** Lines and tabs stay. */
export const printable = (text: string): string => text.replace(UNSAFE, escape);

/** For a part of a line: a name with a line feed must not look like two lines. */
export const oneLine = (text: string): string => printable(text).replace(BREAKS, escape);
