/** Where a nats-server is looked for, in which order, and what is refused on the way. */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from "node:fs";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { Effect } from "effect";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import {
  mainArchive,
  parseDeb822Sources,
  parseDistribution,
  parseOneLineSources,
} from "../../services/natsServer/aptSources.ts";
import { cacheFolderOf } from "../../services/natsServer/BinaryCache.ts";
import {
  findNatsServer,
  NatsServerNotFound,
  NatsServerUnusable,
  type FindOptions,
} from "../../services/natsServer/findNatsServer.ts";
import { runProgram } from "../../services/natsServer/runProgram.ts";
import { isNewEnough, parseVersion } from "../../services/natsServer/ServerVersion.ts";
import { tempFolder, type TempFolder } from "../kit/tempFolder.ts";

let folder: TempFolder;
let servers: Server[] = [];
beforeEach(() => {
  folder = tempFolder("finder");
});
afterEach(() => {
  for (const server of servers) server.close();
  servers = [];
  folder.remove();
});

function fakeBinary(path: string, version: string): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `#!/bin/sh\necho "nats-server: v${version}"\n`);
  chmodSync(path, 0o755);
  return path;
}

/** A machine with nothing: no network (a closed port stands for it), no apt, an empty cache. */
function bareMachine(env: NodeJS.ProcessEnv = {}, machine: FindOptions["machine"] = {}) {
  return {
    env: { PATH: "/nowhere", ...env },
    machine: {
      etcFolder: join(folder.path, "etc"),
      cacheFolder: join(folder.path, "cache"),
      releaseUrl: "http://127.0.0.1:9",
      ...machine,
    },
  } satisfies FindOptions;
}

/** A process that compiles what it imports, on a machine that is busy. */
const FOUND_TIMEOUT_MS = 90_000;

const find = (options: FindOptions) => Effect.runPromise(findNatsServer(options));
const findFailure = (options: FindOptions) =>
  Effect.runPromise(Effect.flip(findNatsServer(options)));

describe("order of the search", () => {
  test("NATS_SERVER wins over PATH and the cache", async () => {
    const given = fakeBinary(join(folder.path, "given"), "2.14.4");
    fakeBinary(join(folder.path, "bin", "nats-server"), "2.15.0");
    const found = await find(bareMachine({ NATS_SERVER: given, PATH: join(folder.path, "bin") }));
    expect(found).toEqual({ path: given, version: "2.14.4", source: "NATS_SERVER" });
  });

  test.each([
    ["is not there", undefined, /does not run: .*ENOENT/],
    ["is too old", "2.14.3", /it is 2\.14\.3, too old/],
    ["is another program", "x", /it is not a nats-server/],
  ])("a NATS_SERVER that %s is an error, even if PATH has a valid one", async (_, version, why) => {
    const given = join(folder.path, "given");
    if (version !== undefined) fakeBinary(given, version);
    fakeBinary(join(folder.path, "bin", "nats-server"), "2.15.0");
    const error = await findFailure(
      bareMachine({ NATS_SERVER: given, PATH: join(folder.path, "bin") }),
    );
    expect(error).toBeInstanceOf(NatsServerUnusable);
    expect(error.message).toMatch(why);
  });

  test("an old server on PATH is skipped for a newer one later on it", async () => {
    fakeBinary(join(folder.path, "old", "nats-server"), "2.9.10");
    const good = fakeBinary(join(folder.path, "new", "nats-server"), "2.12.14");
    const found = await find(
      bareMachine({ PATH: `${join(folder.path, "old")}:${join(folder.path, "new")}` }),
    );
    expect(found).toEqual({ path: good, version: "2.12.14", source: "PATH" });
  });

  test("an old server on PATH is skipped for the newest valid one in the cache", async () => {
    fakeBinary(join(folder.path, "old", "nats-server"), "2.9.10");
    const cached = (version: string): string =>
      join(folder.path, "cache", `nats-server-${version}-${process.platform}-${process.arch}`);
    fakeBinary(cached("2.14.5"), "2.14.5");
    const newest = fakeBinary(cached("2.14.10"), "2.14.10");
    writeFileSync(cached("2.15.0"), "half a download"); // not executable
    const found = await find(bareMachine({ PATH: join(folder.path, "old") }));
    expect(found).toEqual({ path: newest, version: "2.14.10", source: "the cache" });
  });

  test("if no server is found, the error lists every place with its reason and what to do", async () => {
    const old = fakeBinary(join(folder.path, "old", "nats-server"), "2.9.10");
    const said: string[] = [];
    const error = await findFailure({
      ...bareMachine({ PATH: dirname(old) }),
      onProgress: (line) => said.push(line),
    });
    expect(error).toBeInstanceOf(NatsServerNotFound);
    const tried = (error as NatsServerNotFound).tried;
    expect(tried.map(({ place }) => place)).toEqual([
      "PATH",
      "the cache",
      "the official release",
      "the distribution's next suite",
    ]);
    expect(tried[0]?.why).toBe(
      `${old}: it is 2.9.10, too old (needed: 2.12.14 or newer in the 2.12 line, or 2.14.4 or newer)`,
    );
    expect(tried[2]?.why).toMatch(/ECONNREFUSED|bad port/);
    expect(tried[3]?.why).toBe("this machine is neither Debian nor Ubuntu");
    expect(error.message).toContain("set NATS_SERVER");
    expect(said[0]).toMatch(/^Downloading nats-server v2\.14\.5 from 127\.0\.0\.1/);
  });

  test("the cache is in the platform's folder for caches", () => {
    expect(cacheFolderOf({}, "linux", "/h")).toBe("/h/.cache/agents/nats-server");
    expect(cacheFolderOf({ XDG_CACHE_HOME: "/x" }, "linux", "/h")).toBe("/x/agents/nats-server");
    expect(cacheFolderOf({ XDG_CACHE_HOME: "rel" }, "linux", "/h")).toBe(
      "/h/.cache/agents/nats-server",
    );
    expect(cacheFolderOf({}, "darwin", "/h")).toBe("/h/Library/Caches/agents/nats-server");
    expect(cacheFolderOf({ LOCALAPPDATA: "/l" }, "win32", "/h")).toBe("/l/agents/nats-server");
  });
});

test.each([
  ["2.12.13", false],
  ["2.12.14", true],
  ["2.12.14-RC.1", false],
  ["2.13.9", false],
  ["2.14.3", false],
  ["2.14.4", true],
  ["2.15.1", true],
  ["3.0.0", true],
  ["2.9.10", false],
])("whether version %s is new enough: %s", (version, enough) => {
  const parsed = parseVersion(`nats-server: v${version}\n`);
  expect(parsed !== undefined && isNewEnough(parsed)).toBe(enough);
});

describe("the official release", () => {
  /** Serves a release whose archive for `target` has a fake binary; `sum` overrides its digest. */
  async function serveRelease(
    target: string,
    sum?: string,
  ): Promise<{ url: string; asked: string[] }> {
    const name = `nats-server-v2.14.5-${target}`;
    fakeBinary(join(folder.path, "release", name, "nats-server"), "2.14.5");
    const tarFile = join(folder.path, `${name}.tar.gz`);
    execFileSync("tar", ["-czf", tarFile, "-C", join(folder.path, "release"), name]);
    const archive = readFileSync(tarFile);
    const digest = sum ?? createHash("sha256").update(archive).digest("hex");
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url ?? "");
      if (request.url === `/v2.14.5/${name}.tar.gz`) response.end(archive);
      else if (request.url === "/v2.14.5/SHA256SUMS") {
        response.end(`${"0".repeat(64)}  other.zip\n${digest}  ${name}.tar.gz\n`);
      } else response.writeHead(404).end();
    });
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked };
  }
  test("behind a proxy that Node does not use, the reason says how it uses it", async () => {
    const reason = async (env: NodeJS.ProcessEnv): Promise<string | undefined> => {
      const error = await findFailure(bareMachine({ https_proxy: "http://127.0.0.1:9", ...env }));
      return (error as NatsServerNotFound).tried.find(({ place }) => place === "the official release")?.why; // prettier-ignore
    };
    expect(await reason({})).toMatch(/: bad port; .* set NODE_USE_ENV_PROXY=1 /);
    expect(await reason({ NODE_USE_ENV_PROXY: "1" })).toMatch(/: bad port$/);
  });

  test("a download with the listed digest is kept in the cache and found there afterwards", async () => {
    const release = await serveRelease("linux-386");
    const options = bareMachine({}, { platform: "linux", arch: "ia32", releaseUrl: release.url });
    const found = await find(options);
    const kept = join(folder.path, "cache", "nats-server-2.14.5-linux-ia32");
    expect(found).toEqual({ path: kept, version: "2.14.5", source: "the official release" });
    expect(await find(options)).toEqual({ ...found, source: "the cache" });
    expect(release.asked).toHaveLength(2);
    expect(readdirSync(join(folder.path, "cache"))).toEqual(["nats-server-2.14.5-linux-ia32"]);
  });

  test.each([
    ["does not have the pinned digest", "x64", "linux-amd64"],
    ["does not have the listed digest", "ia32", "linux-386"],
  ])("a download that %s is refused and leaves nothing behind", async (_, arch, target) => {
    const release = await serveRelease(target, "0".repeat(64));
    const error = await findFailure(
      bareMachine({}, { platform: "linux", arch, releaseUrl: release.url }),
    );
    expect(error.message).toMatch(
      /its sha256 is [0-9a-f]{64}, not [0-9a-f]{64}; it was not unpacked/,
    );
    expect(readdirSync(join(folder.path, "cache"))).toEqual([]);
  });

  test("a platform without a release is an error", async () => {
    const release = await serveRelease("linux-386");
    const error = await findFailure(
      bareMachine({}, { platform: "linux", arch: "mips", releaseUrl: release.url }),
    );
    expect(error.message).toContain("this platform is not supported");
  });

  test("two concurrent downloads leave one complete binary", async () => {
    const release = await serveRelease("linux-386");
    const script = `
      import { Effect } from "effect";
      import { findNatsServer } from ${JSON.stringify(join(import.meta.dirname, "../../services/natsServer/findNatsServer.ts"))};
      const machine = ${JSON.stringify(bareMachine({}, { platform: "linux", arch: "ia32", releaseUrl: release.url }).machine)};
      const found = await Effect.runPromise(findNatsServer({ env: { PATH: "/nowhere" }, machine }));
      console.log(found.path);
    `;
    const run = () =>
      runProgram(process.execPath, ["--import", "tsx", "--input-type=module", "-e", script], {
        timeoutMs: FOUND_TIMEOUT_MS,
        cwd: join(import.meta.dirname, "../.."),
      });
    const ends = await Promise.all([run(), run()]);
    const kept = join(folder.path, "cache", "nats-server-2.14.5-linux-ia32");
    for (const end of ends) {
      expect(end).toMatchObject({ kind: "exited", code: 0, stdout: `${kept}\n` });
    }
    expect(readdirSync(join(folder.path, "cache"))).toEqual(["nats-server-2.14.5-linux-ia32"]);
  });
});

describe("the distribution's package", () => {
  const deb822 = `
# comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm
# inside
 bookworm-updates
Components: main
Signed-By: /k/a.gpg

Enabled: no
Types: deb
URIs: http://off.example/
Suites: bookworm

Types: deb-src
URIs: http://src.example/
Suites: bookworm

Types: deb
URIs: https://inline.example/
Suites: noble
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
`;
  const oneLine = `
deb cdrom:[Debian]/ bookworm main
deb [arch=amd64 signed-by=/k/b.gpg] https://one.example/debian bookworm main # note
deb-src http://src.example bookworm main
#deb http://off.example bookworm main
deb http://security.example bookworm-security main
`;

  test("both formats of the machine's sources are read, keys included", () => {
    expect(parseDeb822Sources(deb822)).toEqual([
      {
        uri: "http://mirror.example/debian",
        suites: ["bookworm", "bookworm-updates"],
        signedBy: "/k/a.gpg",
      },
      { uri: "https://inline.example/", suites: ["noble"], signedBy: undefined },
    ]);
    expect(parseOneLineSources(oneLine)).toEqual([
      { uri: "https://one.example/debian", suites: ["bookworm"], signedBy: "/k/b.gpg" },
      { uri: "http://security.example", suites: ["bookworm-security"], signedBy: undefined },
    ]);
  });

  test("the main archive is found for the machine's own suite, on derivatives too", () => {
    const debian = parseDistribution("ID=debian\nVERSION_CODENAME=bookworm\n");
    const mint = parseDistribution(
      'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_CODENAME=wilma\nUBUNTU_CODENAME=noble\n',
    );
    expect(debian).toEqual({ kind: "debian", codename: "bookworm" });
    expect(mint).toEqual({ kind: "ubuntu", codename: "noble" });
    expect(parseDistribution("ID=fedora\n")).toBeUndefined();
    const sources = [
      { uri: "http://vendor.example", suites: ["nodistro"], signedBy: undefined },
      ...parseDeb822Sources(deb822),
    ];
    expect(debian && mainArchive(sources, debian)?.uri).toBe("http://mirror.example/debian");
    expect(mint && mainArchive(sources, mint)?.uri).toBe("https://inline.example/");
    expect(debian && mainArchive(sources.slice(0, 1), debian)).toBeUndefined();
  });

  /** This machine's PATH without the folders that hold a nats-server: apt's tools are elsewhere. */
  const toolsOnly = (process.env["PATH"] ?? "")
    .split(":")
    .filter((place) => !existsSync(join(place, "nats-server")))
    .join(":");

  test("the package is fetched without installing anything, and found in the cache by the next search", async () => {
    const said: string[] = [];
    const options: FindOptions = {
      ...bareMachine({ PATH: toolsOnly }, { etcFolder: "/etc" }),
      onProgress: (line) => said.push(line),
    };
    if (!existsSync("/usr/bin/apt-get")) {
      expect((await findFailure(options)).message).toMatch(/neither Debian nor Ubuntu/);
      return;
    }
    const found = await find(options);
    expect(found.source).toBe("the distribution's next suite");
    expect(readdirSync(join(folder.path, "cache"))).toEqual([
      `nats-server-${found.version}-${process.platform}-${process.arch}`,
    ]);
    expect(said.join("\n")).toMatch(/Fetching the nats-server package of (debian|ubuntu)'s \w+ …/);
    expect(await find(options)).toEqual({ ...found, source: "the cache" });
  });

  test("an archive that is not signed by the machine's keys is refused", async () => {
    const asked: string[] = [];
    const mirror = createServer((request, response) => {
      asked.push(request.url ?? "");
      if (request.url?.endsWith("/Release") !== true) return void response.writeHead(404).end();
      response.end("Suite: forky\nCodename: forky\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n");
    });
    servers.push(mirror);
    await new Promise<void>((resolve) => mirror.listen(0, "127.0.0.1", resolve));
    const uri = `http://127.0.0.1:${(mirror.address() as AddressInfo).port}/debian`;
    const etc = join(folder.path, "etc");
    mkdirSync(join(etc, "apt"), { recursive: true });
    writeFileSync(join(etc, "os-release"), "ID=debian\nVERSION_CODENAME=bookworm\n");
    writeFileSync(
      join(etc, "apt", "sources.list"),
      `deb [trusted=yes] ${uri} bookworm main\n`, // not even if the machine trusts it blindly
    );
    const env = { PATH: toolsOnly, http_proxy: "" };
    const error = await findFailure(bareMachine(env, { platform: "linux" }));
    if (!existsSync("/usr/bin/apt-get")) {
      expect(error.message).toMatch(/apt-get does not run/);
      return;
    }
    expect(error.message).toMatch(/forky: apt-get: .*is not signed/);
    expect(asked).toContain("/debian/dists/forky/Release");
    expect(asked.filter((url) => url.includes("Packages"))).toEqual([]);
    expect(readdirSync(join(folder.path, "cache"))).toEqual([]);
  });
});
