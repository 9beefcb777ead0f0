/**
 * The nats-server package of the distribution's next suite, for Debian and Ubuntu machines that
 * reach their package mirror but not GitHub. Only the binary is extracted: nothing is installed, no
 * root is needed, and the machine's own lists and settings are not changed.
 *
 * apt fetches the package and checks its signatures and digests, with a private configuration: one
 * source line (the machine's own mirror and keys, another suite) and private folders.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  mainArchive,
  parseDeb822Sources,
  parseDistribution,
  parseOneLineSources,
  type AptSource,
  type Distribution,
} from "./aptSources.ts";
import { putIntoCache, withWorkFolder } from "./BinaryCache.ts";
import { lastLines, runProgram } from "./runProgram.ts";
import type { PlaceAnswer, Search } from "./Search.ts";
import { messageOf } from "../../core/errors/thrown.ts";

/** The lists are some 10 MB and the package 5 MB, which take far less on a usable network. */
const APT_TIMEOUT_MS = 120_000;
/** apt's limit for one connection, so that an unreachable mirror fails soon. */
const CONNECT_TIMEOUT_S = 10;
const APT_VERSION_TIMEOUT_MS = 10_000;
const UNPACK_TIMEOUT_MS = 60_000;

/**
 * The suites to try, in order. Debian 14 (`forky`) has 2.15 and will keep it; `testing` and `sid`
 * are for later years and for mirrors without it. `devel` is Ubuntu's name of the series in
 * development.
 */
const SUITES = { debian: ["forky", "testing", "sid"], ubuntu: ["devel"] } as const;
const COMPONENT = { debian: "main", ubuntu: "universe" } as const;
/** For entries that name no keys. Without the file, apt uses the keys that it always trusts. */
const KEYRING = {
  debian: "/usr/share/keyrings/debian-archive-keyring.gpg",
  ubuntu: "/usr/share/keyrings/ubuntu-archive-keyring.gpg",
} as const;

/** Fetches the package. Failures of apt, the mirror or the disk are `failed`, never a rejection. */
export async function debianPackage(search: Search): Promise<PlaceAnswer> {
  const distribution = parseDistribution(readText(join(search.etcFolder, "os-release")));
  if (search.platform !== "linux" || distribution === undefined) {
    return { kind: "failed", why: "this machine is neither Debian nor Ubuntu" };
  }
  const source = mainArchive(machineSources(search.etcFolder), distribution);
  if (source === undefined) {
    const why = `no source in ${join(search.etcFolder, "apt")} is the archive of ${distribution.kind}`;
    return { kind: "failed", why };
  }
  const apt = await runProgram("apt-get", ["--version"], {
    env: search.env,
    timeoutMs: APT_VERSION_TIMEOUT_MS,
    signal: search.signal,
  });
  if (apt.kind === "failed") return { kind: "failed", why: `apt-get does not run: ${apt.why}` };
  const reasons: string[] = [];
  for (const suite of SUITES[distribution.kind]) {
    search.progress(`Fetching the nats-server package of ${distribution.kind}'s ${suite} …`);
    const line = sourceLine(distribution, source, suite);
    const answer = await fromSuite(search, line).catch((error: unknown): PlaceAnswer => {
      return { kind: "failed", why: messageOf(error) };
    });
    if (answer.kind === "found") return answer;
    reasons.push(`${suite}: ${answer.why}`);
    if (search.signal.aborted) break;
  }
  return { kind: "failed", why: `${source.uri}: ${reasons.join("; ")}` };
}

function fromSuite(search: Search, line: string): Promise<PlaceAnswer> {
  return withWorkFolder(search, async (folder) => {
    const config = writeAptConfig(folder, line);
    const run = async (program: string, args: string[], timeoutMs: number) => {
      const env = { ...search.env, LC_ALL: "C" };
      const end = await runProgram(program, args, {
        cwd: folder,
        env,
        timeoutMs,
        signal: search.signal,
      });
      if (end.kind === "failed") throw new Error(`${program}: ${end.why}`);
      if (end.code !== 0) throw new Error(`${program}: ${lastLines(end.stderr, 2)}`);
    };
    await run("apt-get", ["-c", config, "-qq", "update"], APT_TIMEOUT_MS);
    await run("apt-get", ["-c", config, "-qq", "download", "nats-server"], APT_TIMEOUT_MS);
    const packageFile = readdirSync(folder).find((name) => name.endsWith(".deb"));
    if (packageFile === undefined) throw new Error("apt-get downloaded no package");
    await run("dpkg-deb", ["-x", packageFile, "unpacked"], UNPACK_TIMEOUT_MS);
    const binary = ["usr/sbin", "usr/bin"]
      .map((place) => join(folder, "unpacked", place, "nats-server"))
      .find((path) => existsSync(path));
    if (binary === undefined) throw new Error(`${packageFile} contains no nats-server`);
    return putIntoCache(search, binary);
  });
}

function sourceLine(distribution: Distribution, source: AptSource, suite: string): string {
  const fallback = KEYRING[distribution.kind];
  const keys = source.signedBy ?? (existsSync(fallback) ? fallback : undefined);
  // Only packages: a machine may be configured to fetch icons and command names for every source.
  const options = ["target=Packages", ...(keys === undefined ? [] : [`signed-by=${keys}`])];
  return `deb [${options.join(" ")}] ${source.uri} ${suite} ${COMPONENT[distribution.kind]}`;
}

/** Writes a file for `apt-get -c`, read after the machine's own: proxies stay, these win. */
function writeAptConfig(folder: string, line: string): string {
  mkdirSync(join(folder, "state", "lists", "partial"), { recursive: true });
  mkdirSync(join(folder, "cache", "archives", "partial"), { recursive: true });
  const sourceList = join(folder, "sources.list");
  writeFileSync(sourceList, `${line}\n`);
  const settings: Readonly<Record<string, string>> = {
    "Dir::Etc::SourceList": sourceList,
    "Dir::Etc::SourceParts": "/dev/null",
    "Dir::Etc::Preferences": "/dev/null",
    "Dir::Etc::PreferencesParts": "/dev/null",
    "Dir::State": join(folder, "state"),
    "Dir::State::Lists": join(folder, "state", "lists"),
    "Dir::Cache": join(folder, "cache"),
    // Run by root, apt would switch to a user without access to the folder.
    "APT::Sandbox::User": "",
    "APT::Get::AllowUnauthenticated": "false",
    "Acquire::AllowInsecureRepositories": "false",
    "Acquire::AllowDowngradeToInsecureRepositories": "false",
    "Acquire::Languages": "none",
    "Acquire::Retries": "1",
    "Acquire::http::Timeout": String(CONNECT_TIMEOUT_S),
    "Acquire::https::Timeout": String(CONNECT_TIMEOUT_S),
    // Without it, an unreachable mirror is only a warning of `update`.
    "APT::Update::Error-Mode": "any",
  };
  // Hooks would clean the machine's caches, and the one source lacks a default release.
  const cleared = [
    "APT::Update::Pre-Invoke",
    "APT::Update::Post-Invoke",
    "APT::Update::Post-Invoke-Success",
    "APT::Default-Release",
  ];
  const file = join(folder, "apt.conf");
  const lines = Object.entries(settings).map(([name, value]) => `${name} "${value}";`);
  writeFileSync(file, [...cleared.map((name) => `#clear ${name};`), ...lines, ""].join("\n"));
  return file;
}

function machineSources(etcFolder: string): AptSource[] {
  const parts = join(etcFolder, "apt", "sources.list.d");
  const files = existsSync(parts) ? readdirSync(parts).toSorted() : [];
  return [
    ...parseOneLineSources(readText(join(etcFolder, "apt", "sources.list"))),
    ...files.flatMap((name) => {
      if (name.endsWith(".list")) return parseOneLineSources(readText(join(parts, name)));
      if (name.endsWith(".sources")) return parseDeb822Sources(readText(join(parts, name)));
      return [];
    }),
  ];
}

/** Empty if there is no such file: a machine may have either format of sources, or no apt. */
function readText(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}
