/**
 * Reads the machine's own package sources, to know which mirror it uses and which keys it trusts for
 * it. Pure: `debianPackage` hands in the texts. Both forms are read, one-line (`*.list`) and deb822
 * (`*.sources`); formats: sources.list(5).
 */

export interface AptSource {
  readonly uri: string;
  readonly suites: readonly string[];
  /** Keyring files, comma-separated; undefined if the entry names none or carries its key inline. */
  readonly signedBy: string | undefined;
}

/** Which distribution a machine is, and under which name its archive has the machine's own suite. */
export interface Distribution {
  readonly kind: "debian" | "ubuntu";
  readonly codename: string;
}

/** What apt can fetch from without asking for a disc; it also knows `tor+`, `mirror+` and the like. */
const FETCHABLE = /^(?:[a-z0-9+]*https?|mirror[a-z0-9+]*|ftp|file|copy):/;

/** Entries of a `*.list` file that offer binary packages. A line that is not understood is left out. */
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
    // A line that starts with a space goes on with the field before it.
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

/** Takes the text of `os-release`; undefined if the machine is neither Debian, Ubuntu nor built on one. */
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

/** The entry of the distribution's main archive: not its security archive, not another vendor's. */
export function mainArchive(
  sources: readonly AptSource[],
  distribution: Distribution,
): AptSource | undefined {
  const names = new Set([distribution.codename, ...ALIASES[distribution.kind]]);
  // The security archive has a name of its own on Debian, and on Ubuntu always `-security`.
  return sources.find((source) => source.suites.some((suite) => names.has(suite)));
}

const ALIASES = {
  debian: ["oldstable", "stable", "testing", "unstable", "sid"],
  ubuntu: ["devel"],
} as const;
