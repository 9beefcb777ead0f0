/**
 * The answer of a test's `outgoing` handler as `fetch` returns it to the code of a served agent:
 * redirects are followed, a compressed body is decoded, and `url` is that of the last request. The
 * handler answers each request of a chain of redirects, as a server would.
 */
import { brotliDecompressSync, unzipSync } from "node:zlib";

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
/** As in the fetch standard. */
const REDIRECTS_MAX = 20;

/** What every release of Node decodes. A body with any other coding stays as it is. */
const DECODERS = new Map([
  ["gzip", unzipSync],
  ["x-gzip", unzipSync],
  ["deflate", unzipSync],
  ["br", brotliDecompressSync],
]);

/** Rejects with `TypeError` as `fetch` does, and as `answer` does. */
export async function fetched(
  request: Request,
  answer: (request: Request) => Promise<Response>,
): Promise<Response> {
  let asked = request;
  for (let redirects = 0; ; redirects++) {
    const again = asked.clone();
    const response = await answer(asked);
    const location = REDIRECTS.has(response.status) ? response.headers.get("location") : null;
    if (location === null || asked.redirect === "manual")
      return received(response, asked.url, redirects > 0);
    if (asked.redirect === "error") throw failed("unexpected redirect");
    if (redirects === REDIRECTS_MAX) throw failed("redirect count exceeded");
    asked = await redirected(again, response.status, new URL(location, asked.url));
  }
}

const failed = (why: string): TypeError => new TypeError("fetch failed", { cause: new Error(why) });

async function redirected(from: Request, status: number, url: URL): Promise<Request> {
  const { signal, redirect } = from;
  const headers = new Headers(from.headers);
  if (url.origin !== new URL(from.url).origin)
    for (const name of ["authorization", "cookie"]) headers.delete(name);
  const isPost = from.method === "POST" && (status === 301 || status === 302);
  const isOther = status === 303 && from.method !== "GET" && from.method !== "HEAD";
  if (isPost || isOther) {
    for (const name of ["content-type", "content-length"]) headers.delete(name);
    return new Request(url, { headers, signal, redirect });
  }
  const body = from.body === null ? null : await from.arrayBuffer();
  return new Request(url, { method: from.method, headers, body, signal, redirect });
}

async function received(response: Response, url: string, isMoved: boolean): Promise<Response> {
  const made = await decoded(response, url);
  return Object.defineProperties(made, {
    url: { value: url, configurable: true },
    redirected: { value: isMoved, configurable: true },
  });
}

async function decoded(response: Response, url: string): Promise<Response> {
  const coding = response.headers.get("content-encoding");
  if (coding === null || response.body === null) return response;
  const decoders = coding.split(",").map((name) => DECODERS.get(name.trim().toLowerCase()));
  if (!decoders.every((decode) => decode !== undefined)) return response;
  const { status, statusText } = response;
  const headers = new Headers(response.headers);
  for (const name of ["content-encoding", "content-length"]) headers.delete(name);
  const bytes = Buffer.from(await response.arrayBuffer());
  try {
    const body = decoders.reduceRight((data, decode) => decode(data), bytes);
    return new Response(new Uint8Array(body), { status, statusText, headers });
  } catch (cause) {
    throw new TypeError(`the answer to ${url} says content-encoding ${coding}, which it is not`, {
      cause,
    });
  }
}
