/** The client library is the version whose internals `services/nats` was written against. */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";

/** Changed only together with the files that `WHY` names. */
const VERSION = "3.4.0";
const WHY = `services/nats uses internals of @nats-io/nats-core that no interface promises:
- gatherWrites replaces protocol.flushPending and protocol.sendCommand, and reads protocol.outbound;
- HeaderText finds the header block in memory, right before a message's data, by Msg.size();
- ReplyInbox passes an object as MsgHdrs that has nothing but encode().
Another version may publish slower, or read the wrong bytes. Before you change VERSION here and in
package.json, compare these places with the new version's source and run test/nats and
test/conformance`;

interface Manifest {
  readonly name?: string;
  readonly version?: string;
  /** The package brings the client along: it is built in, and no dependency of the package. */
  readonly devDependencies?: Readonly<Record<string, string>>;
}
const readManifest = (file: string | URL): Manifest =>
  JSON.parse(readFileSync(file, "utf8")) as Manifest;

/** The version that a file would import. */
function versionFrom(file: string): string | undefined {
  let folder = dirname(createRequire(file).resolve("@nats-io/nats-core"));
  for (; folder !== dirname(folder); folder = dirname(folder)) {
    const manifest = join(folder, "package.json");
    if (!existsSync(manifest)) continue;
    const { name, version } = readManifest(manifest);
    if (name === "@nats-io/nats-core") return version;
  }
  return undefined;
}

test("the exact version of @nats-io/nats-core is pinned and installed, for the transport too", () => {
  const { devDependencies } = readManifest(new URL("../../package.json", import.meta.url));
  expect(devDependencies?.["@nats-io/nats-core"], WHY).toBe(VERSION);
  expect(versionFrom(import.meta.filename), WHY).toBe(VERSION);
  const transport = createRequire(import.meta.filename).resolve("@nats-io/transport-node");
  expect(versionFrom(transport), WHY).toBe(VERSION);
});
