/** uWebSockets.js is native code: the suite, the benches and the image use an accepted hash. */
import { createHash } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { expect, it } from "vitest";

const list = readFileSync(new URL("../../deploy/uwebsockets.sha256", import.meta.url), "utf8");
const accepted = new Map(
  list
    .trim()
    .split("\n")
    .map((line) => line.split(/ +/) as [hash: string, file: string])
    .map(([hash, file]) => [file, hash]),
);

it("the native binaries that Linux loads are the approved ones", () => {
  const folder = dirname(createRequire(import.meta.url).resolve("uWebSockets.js"));
  const found = [...accepted.keys()].filter((file) => existsSync(join(folder, file)));
  const hashes = found.map((file) => [
    file,
    createHash("sha256")
      .update(readFileSync(join(folder, file)))
      .digest("hex"),
  ]);
  expect(found).toContain("uws_linux_x64_115.node");
  expect(hashes).toEqual(found.map((file) => [file, accepted.get(file)]));
});
