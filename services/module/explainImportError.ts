/**
 * Turns the error of importing a user's module into one message that names the place and the
 * remedy. Pure. Kinds of errors are distinguished by code and class. The text of esbuild's and
 * Node's messages is only passed on, unless it is the only place that names the file.
 */
import { withoutLoadMark } from "../node/loadMark.ts";
import { underInstalledName } from "../ownPackage/installedName.ts";
import { explainMissingImport } from "./missingImports.ts";

export function explainImportError(error: unknown, file: string): string {
  if (!(error instanceof Error)) return `${file}: threw ${JSON.stringify(error)} while loading`;
  const message = withoutLoadMark(error.message);
  const code = (error as { readonly code?: unknown }).code;
  const missing = explainMissingImport({ message, stack: error.stack, code }, file);
  if (missing !== undefined) return underInstalledName(missing);
  if (error.name === "TransformError") {
    // esbuild: a heading, then one "file:line:column: ERROR: text" for each error.
    const places = message
      .split("\n")
      .slice(1)
      .filter((line) => line.trim() !== "");
    return `syntax error\n${places.map((line) => `  ${line.replace("ERROR: ", "")}`).join("\n")}`;
  }
  if (code === "ERR_MODULE_NOT_FOUND" && message.startsWith("Cannot find package"))
    return `${file}: ${message}. Install it beside the module (npm install)`;
  if (code === "ERR_MODULE_NOT_FOUND") return `${file}: ${message}. Check the path of the import`;
  return `${file}: failed while loading\n${stackOf(error)}`;
}

/** The error with the stack frames in the user's own files, or with all if there are none. */
function stackOf(error: Error): string {
  const lines = withoutLoadMark(error.stack ?? String(error)).split("\n");
  const heading = lines.filter((line) => !/^\s+at /.test(line));
  const frames = lines.filter((line) => /^\s+at /.test(line));
  const own = frames.filter(
    (line) => !/node:internal|\/node_modules\/|\/services\/module\//.test(line),
  );
  const shown = own.length > 0 ? own : frames;
  return [...heading, ...shown].map((line) => `  ${line}`).join("\n");
}
