/**
 * Parses the machine's package sources, to find its mirror and the keys that it trusts for it.
 * Pure: `debianPackage` reads the files. Parses both formats, one-line (`*.list`) and deb822
 * (`*.sources`); see sources.list(5).
 */

export interface AptSource {
  readonly uri: string;
  readonly suites: readonly string[];
  /** Keyring files, comma-separated; undefined if the entry names none or has its key inline. */
  readonly signedBy: string | undefined;
}

/** A machine's distribution, and the name of its own suite in the archive. */
export interface Distribution {
  readonly kind: "debian" | "ubuntu";
  readonly codename: string;
}

/** Schemes that apt fetches from without a disc, including `tor+`, `mirror+` and the like. */
const FETCHABLE = /^(?:[a-z0-9+]*https?|mirror[a-z0-9+]*|ftp|file|copy):/;

/** Entries of a `*.list` file that offer binary packages. Lines that do not parse are skipped. */
export function parseOneLineSources(text: string): AptSource[] {
  return text.split("\n").flatMap((line) => {
    const match = /^\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)/.exec(line.replace(/#.*/, ""));
    const [, options, uri, suite] = match ?? [];
    if (uri === undefined || suite === undefined || !FETCHABLE.test(uri)) return [];
    const keys = /(?:^|\s)signed-by=(\S+)/i.exec(options ?? "")?.[1];
    return [{ uri, suites: [suite], signedBy: keys }];
  });
}

/** Entries of a `*.sources` file that offer binary packages and are enabled. */
export function parseDeb822Sources(text: string): AptSource[] {
  const withoutComments = text.replaceAll("\r", "").replaceAll(/^#.*\n?/gm, "");
  return withoutComments.split(/\n\s*\n/).flatMap((stanza) => {
    const fields = new Map<string, string>();
    // A line that starts with a space continues the previous field.
    for (const field of stanza.split(/\n(?![ \t])/)) {
      const colon = field.indexOf(":");
      if (colon > 0) fields.set(field.slice(0, colon).toLowerCase(), field.slice(colon + 1));
    }
    const words = (name: string): string[] =>
      (fields.get(name) ?? "").split(/\s+/).filter((word) => word !== "");
    if (
      !words("types").includes("deb") ||
      /^\s*(no|false)\s*$/i.test(fields.get("enabled") ?? "")
    ) {
      return [];
    }
    const keys = words("signed-by");
    const signedBy = keys.length > 0 && keys.every((key) => key.startsWith("/"));
    return words("uris")
      .filter((uri) => FETCHABLE.test(uri))
      .map((uri) => ({
        uri,
        suites: words("suites"),
        signedBy: signedBy ? keys.join(",") : undefined,
      }));
  });
}

/** Parses `os-release`. Undefined if the machine is neither Debian, Ubuntu nor derived from one. */
export function parseDistribution(osRelease: string): Distribution | undefined {
  const value = (name: string): string | undefined =>
    new RegExp(`^${name}=["']?([^"'\\n]*)`, "m").exec(osRelease)?.[1];
  const ids = [value("ID"), ...(value("ID_LIKE") ?? "").split(" ")];
  const own = value("VERSION_CODENAME");
  if (ids.includes("ubuntu")) {
    return { kind: "ubuntu", codename: value("UBUNTU_CODENAME") ?? own ?? "" };
  }
  if (ids.includes("debian")) {
    return { kind: "debian", codename: value("DEBIAN_CODENAME") ?? own ?? "" };
  }
  return undefined;
}

/** The entry of the distribution's main archive, not its security archive or another vendor's. */
export function mainArchive(
  sources: readonly AptSource[],
  distribution: Distribution,
): AptSource | undefined {
  const names = new Set([distribution.codename, ...ALIASES[distribution.kind]]);
  // The security archive's suite has another name on Debian, and ends with `-security` on Ubuntu.
  return sources.find((source) => source.suites.some((suite) => names.has(suite)));
}

const ALIASES = {
  debian: ["oldstable", "stable", "testing", "unstable", "sid"],
  ubuntu: ["devel"],
} as const;
