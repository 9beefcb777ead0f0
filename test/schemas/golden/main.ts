/**
 * `npm run golden`: writes the next set of golden files, after a stored format has changed on
 * purpose. Earlier sets stay as they are: releases go on reading them.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FORMATS } from "./formats.ts";
import { asJson, FILES, setsOf } from "./sets.ts";
import { writeWhole } from "./whole.ts";

const next = join(FILES, String(setsOf().length + 1));
mkdirSync(next, { recursive: true });
for (const [name, { write, read }] of Object.entries(FORMATS)) {
  const bytes = write();
  const file = { bytes: Buffer.from(bytes).toString("base64"), reads: asJson(read(bytes)) };
  writeFileSync(join(next, `${name}.json`), `${JSON.stringify(file, undefined, 2)}\n`);
}
writeFileSync(
  join(next, "whole.json"),
  `${JSON.stringify(await writeWhole(next), undefined, 2)}\n`,
);
console.info(
  `${next}: look at what changed, say in CHANGELOG.md what older releases make of it, and commit it`,
);
