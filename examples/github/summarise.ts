/**
 * One line about any GitHub event, for lists. Payloads come from outside: every field may be
 * missing or of another type, and links are kept only if they are links.
 */
export interface Summary {
  readonly action: string | null;
  readonly title: string;
  readonly description: string | null;
  readonly url: string | null;
  readonly actor: string | null;
  readonly repository: string | null;
}

export function summarise(type: string, payload: unknown): Summary {
  const at = (path: string): unknown => valueAt(payload, path);
  const text = (path: string): string | null => {
    const value = at(path);
    return typeof value === "string" && value !== "" ? value : null;
  };
  const number = text("number") ?? numberText(at("number") ?? at(`${subjectOf(type)}.number`));
  const named = text(`${subjectOf(type)}.title`) ?? text(`${subjectOf(type)}.name`);
  const action = text("action");
  return {
    action,
    title: titleOf(type, { at, text, number, named, action }),
    description: firstLine(text("head_commit.message") ?? text(`${subjectOf(type)}.body`)),
    url: link(
      text(`${subjectOf(type)}.html_url`) ?? text("compare") ?? text("repository.html_url"),
    ),
    actor: text("sender.login"),
    repository: text("repository.full_name"),
  };
}

interface Found {
  readonly at: (path: string) => unknown;
  readonly text: (path: string) => string | null;
  readonly number: string | null;
  readonly named: string | null;
  readonly action: string | null;
}

function titleOf(type: string, { at, text, number, named, action }: Found): string {
  if (type === "push") {
    const commits = at("commits");
    const count = Array.isArray(commits) ? commits.length : 0;
    const branch = text("ref")?.replace(/^refs\/(?:heads|tags)\//, "") ?? "a branch";
    return `${count} ${count === 1 ? "commit" : "commits"} to ${branch}`;
  }
  if (type === "star") return action === "deleted" ? "Star removed" : "Starred";
  if (type === "ping") return text("zen") ?? "Ping";
  const what = (type === "issues" ? "issue" : type).replaceAll("_", " ");
  const subject = what.slice(0, 1).toUpperCase() + what.slice(1);
  const parts = [subject, number === null ? null : `#${number}`, action?.replaceAll("_", " ")];
  const event = parts.filter((part) => part !== null && part !== undefined).join(" ");
  return named === null ? event : `${event}: ${named}`;
}

/** The object of an event whose field is not named like the event. */
function subjectOf(type: string): string {
  if (type === "issues" || type === "issue_comment") return "issue";
  return type.startsWith("pull_request") ? "pull_request" : type;
}

function valueAt(value: unknown, path: string): unknown {
  for (const key of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

const numberText = (value: unknown): string | null =>
  typeof value === "number" && Number.isSafeInteger(value) ? String(value) : null;

const link = (url: string | null): string | null =>
  url !== null && url.startsWith("https://") ? url : null;

/** Characters of a description; the payload has all. */
const DESCRIPTION_MAX = 200;

const firstLine = (text: string | null): string | null =>
  text === null ? null : text.split(/\r?\n/, 1)[0]!.slice(0, DESCRIPTION_MAX) || null;
