/**
 * The console's page: one document with its style and script, which `package/page` bundles from
 * `services/consolePage`, and without anything from elsewhere. It is served to everybody and holds
 * no data. Everything that comes from agents is set as text, never as markup.
 */
import { existsSync, readFileSync } from "node:fs";
import { builtFile } from "../ownPackage/ownFile.ts";

interface PageFiles {
  readonly script: string;
  readonly style: string;
}

let files: PageFiles | undefined;

/** Throws if the page was not built. */
function pageFiles(): PageFiles {
  if (files !== undefined) return files;
  const folder = builtFile("console/");
  if (!existsSync(new URL("page.js", folder)))
    throw new Error("the console's page is missing: npm run build");
  const read = (name: string): string => readFileSync(new URL(name, folder), "utf8");
  files = { script: read("page.js"), style: read("page.css") };
  return files;
}

/** `nonce` is the nonce of the response's content security policy. */
export function page(nonce: string): string {
  const { script, style } = pageFiles();
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>agents</title>
<style nonce="${nonce}">${style}</style>
</head>
<body>
<div id="page"></div>
<script nonce="${nonce}">${script}</script>
</body>
</html>
`;
}
