/** `npm run docs:cli`: writes the command line's reference. */
import { writeFileSync } from "node:fs";
import { CLI_REFERENCE, cliReference } from "./cliReference.ts";

writeFileSync(CLI_REFERENCE, await cliReference());
