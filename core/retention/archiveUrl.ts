/** Checks the URL of an archive (`--archive`). `services/archive/openArchive` opens it. */

/** Given in place of a URL: trims without an archive, even agents whose older history is in one. */
export const NO_ARCHIVE = "none";

const FOLDER = "file:///var/lib/agents-archive";
const BUCKET = "s3://my-bucket/agents";

/** Returns what is wrong with it, in words; undefined for one that can be opened. */
export function archiveFault(url: string): string | undefined {
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  if (parsed?.protocol === "s3:") return bucketFault(parsed);
  if (parsed?.protocol !== "file:")
    return `use the URL of a folder or a bucket: ${FOLDER}, ${BUCKET}`;
  if (/%(?:2f|5c)/i.test(parsed.pathname)) return `the URL has an encoded slash: ${FOLDER}`;
  return parsed.host === "" ? undefined : `the URL of a folder has three slashes: ${FOLDER}`;
}

/** These characters are never percent-encoded: the URL and the bucket's listing look alike. */
const PREFIX = /^(?:\/[\w.=-]+)*\/?$/;
const BUCKET_NAME = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

function bucketFault({ username, password, port, hostname, search, hash, pathname }: URL) {
  if (username !== "" || password !== "")
    return "the URL contains credentials, but is logged: use AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
  if (port !== "" || search !== "" || hash !== "")
    return `the URL may only have a bucket and a prefix, as in ${BUCKET}: set the server with AWS_ENDPOINT_URL`;
  if (!BUCKET_NAME.test(hostname)) return `"${hostname}" is not the name of a bucket: ${BUCKET}`;
  if (!PREFIX.test(pathname))
    return `the prefix "${pathname}" has empty parts, or other characters than letters, digits and - _ . =`;
  return undefined;
}
