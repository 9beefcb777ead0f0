/**
 * The answer of `fetch` as it was decoded. Node decodes a compressed body, and leaves the headers
 * that describe the bytes of the wire: code that returns the answer, or makes another one from its
 * headers, would send a body that no client can read. On the reference's platform the body is
 * compressed again; other runtimes leave the headers out, as this does.
 */

/** From this on, Node's HTTP client decodes zstd: Node 24.4. */
const WITH_ZSTD = [7, 11] as const;
/** What this Node decodes. It leaves a body with any other coding as it is. */
const DECODED: ReadonlySet<string> = new Set([
  "gzip",
  "x-gzip",
  "deflate",
  "br",
  ...(decodesZstd(process.versions["undici"] ?? "0.0") ? ["zstd"] : []),
]);
/** The highest status that `Response` takes. */
const STATUS_MAX = 599;

function decodesZstd(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > WITH_ZSTD[0] || (major === WITH_ZSTD[0] && minor >= WITH_ZSTD[1]);
}

/** `answer` itself if it was not decoded. */
export function decodedAnswer(answer: Response): Response {
  const codings = answer.headers.get("content-encoding")?.toLowerCase().split(",");
  if (codings === undefined || answer.body === null) return answer;
  if (!codings.every((coding) => DECODED.has(coding.trim()))) return answer;
  const { body, redirected, status, statusText, url } = answer;
  const headers = new Headers(answer.headers);
  headers.delete("content-encoding");
  headers.delete("content-length");
  const made = new Response(body, { status: Math.min(status, STATUS_MAX), statusText, headers });
  // The constructor takes none of these.
  return Object.defineProperties(made, {
    redirected: { value: redirected },
    url: { value: url },
    ...(status > STATUS_MAX && { status: { value: status } }),
  });
}
