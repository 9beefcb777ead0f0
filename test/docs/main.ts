/** `npm run docs:cli` and `npm run docs:api`: write the generated pages of `docs/reference`. */
import { mkdirSync, writeFileSync } from "node:fs";
import { apiIndex, apiReference, ENTRIES, pageOf } from "./apiReference.ts";
import { CLI_REFERENCE, cliReference } from "./cliReference.ts";

if (process.argv[2] === "api") {
  mkdirSync(new URL(".", pageOf("README")), { recursive: true });
  writeFileSync(pageOf("README"), apiIndex());
  for (const entry of Object.keys(ENTRIES)) writeFileSync(pageOf(entry), apiReference(entry));
} else writeFileSync(CLI_REFERENCE, await cliReference());
