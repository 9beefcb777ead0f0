/**
 * The pages of an approval's link, as HTML without scripts: the question with its two buttons, the
 * decision, and short texts. Pure. `ApprovalEndpoint` sends them.
 */
import type { Approval } from "../../core/approval/Approval.ts";
import { REASON_CHARS_MAX } from "../../core/approval/checkAnswer.ts";
import type { HttpResponse } from "../../core/http/HttpServer.ts";

/** An approval, who asks, and who reads the page. */
export interface Shown {
  readonly approval: Approval;
  readonly asker: string;
  readonly reader: string;
}

export function questionPage({ approval, asker, reader }: Shown): HttpResponse {
  const { name, prompt, expiresAt } = approval;
  return page(200, name, [
    `<h1>${escaped(name)}</h1>`,
    ...(prompt === null ? [] : [`<p class="prompt">${escaped(prompt)}</p>`]),
    `<p>Asked by ${escaped(asker)}. You answer as ${escaped(reader)}, until ${timeOf(expiresAt)}.</p>`,
    `<form method="post">`,
    `<label>Reason (optional) <input name="reason" maxlength="${REASON_CHARS_MAX}" autocomplete="off"></label>`,
    `<button name="answer" value="approve">Approve</button>`,
    `<button name="answer" value="reject">Reject</button>`,
    `</form>`,
  ]);
}

export function answerPage(status: number, { approval }: Shown): HttpResponse {
  const { name, prompt, by, decidedAt, reason, status: decided } = approval;
  const who = by === null ? "" : ` by ${escaped(by)}`;
  const when = decidedAt === null ? "" : `, ${timeOf(decidedAt)}`;
  return page(status, name, [
    `<h1>${escaped(name)}</h1>`,
    ...(prompt === null ? [] : [`<p class="prompt">${escaped(prompt)}</p>`]),
    `<p><strong>${decided[0]!.toUpperCase()}${decided.slice(1)}</strong>${who}${when}.</p>`,
    ...(reason === null ? [] : [`<p class="prompt">${escaped(reason)}</p>`]),
    ...(status === 409 ? ["<p>Your answer came after that and changed nothing.</p>"] : []),
  ]);
}

export const textPage = (status: number, text: string): HttpResponse =>
  page(status, "Approval", [`<p>${escaped(text)}</p>`]);

const STYLE =
  "body{font:1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem;color-scheme:light dark}" +
  ".prompt{white-space:pre-wrap;overflow-wrap:anywhere}h1{font-size:1.3rem;overflow-wrap:anywhere}" +
  "label{display:block;margin:1rem 0}input{width:100%;font:inherit}button{font:inherit;padding:.4rem 1.2rem;margin-right:1rem}";

/** `ApprovalEndpoint`, rule 4. */
const HEADERS: HttpResponse["headers"] = [
  ["content-type", "text/html;charset=UTF-8"],
  ["cache-control", "no-store"],
  ["content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"],
  ["referrer-policy", "no-referrer"],
  ["x-content-type-options", "nosniff"],
  ["x-frame-options", "DENY"],
  ["x-robots-tag", "noindex"],
]; // prettier-ignore

const page = (status: number, title: string, lines: ReadonlyArray<string>): HttpResponse => ({
  status,
  headers: HEADERS,
  body: `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${escaped(title)}</title><style>${STYLE}</style></head>
<body>${lines.join("\n")}</body></html>
`,
});

const timeOf = (ms: number): string => {
  const iso = new Date(ms).toISOString();
  return `<time datetime="${iso}">${iso.slice(0, 16).replace("T", " ")} UTC</time>`;
};

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};
const escaped = (text: string): string => text.replace(/[&<>"']/g, (char) => ESCAPES[char]!);
