/**
 * Turns the error of importing a user's module into one message that names the place and the
 * remedy. Pure. Kinds of errors are distinguished by code and class. The text of esbuild's and
 * Node's messages is only passed on, unless it is the only place that names the file.
 */
import { fileURLToPath } from "node:url";
import { withoutLoadMark } from "../node/loadMark.ts";
import { ownFolder } from "../ownPackage/ownFile.ts";
import { underInstalledName } from "../ownPackage/installedName.ts";
import { explainMissingImport } from "./missingImports.ts";

/** Node has no code for a name of CommonJS, and its advice, a `.cjs` file, does not help here. */
const COMMON_JS =
  /^(require|module|exports|__filename|__dirname) is not defined in ES module scope.*/s;

/** A name that no package can have. */
const ALIAS = /^Cannot find package '(?:@\/|~)/;

const OWN_FOLDER = fileURLToPath(ownFolder);

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
  if (code === "ERR_MODULE_NOT_FOUND" && ALIAS.test(message))
    return `${file}: ${message}. If it is an alias, list it in "paths" of the tsconfig.json beside the module or above it; files of its "references" are not read`;
  if (code === "ERR_MODULE_NOT_FOUND" && message.startsWith("Cannot find package"))
    return `${file}: ${message}. Install it beside the module (npm install)`;
  if (code === "ERR_MODULE_NOT_FOUND") return `${file}: ${message}. Check the path of the import`;
  const heading = `${file}: failed while loading\n`;
  const [, name] = COMMON_JS.exec(message) ?? [];
  if (name === undefined) return heading + stackOf(error);
  const said = `${error.name}: ${name} is not defined: modules are ES modules here, whatever their package.json says. Write ${insteadOf(name)}`;
  return heading + [`  ${said}`, ...framesOf(error).map((line) => `  ${line}`)].join("\n");
}

function insteadOf(name: string): string {
  if (name === "require") return '`import … from "…"`';
  if (name.startsWith("__")) return `import.meta.${name.slice(2)}`;
  return "`export`";
}

/** The error with its frames. */
function stackOf(error: Error): string {
  const lines = withoutLoadMark(error.stack ?? String(error)).split("\n");
  const heading = lines.filter((line) => !isFrame(line));
  return [...heading, ...framesOf(error)].map((line) => `  ${line}`).join("\n");
}

/**
 * The stack frames in the user's own files; if there are none, those in packages. Frames of Node
 * and of this package help nobody.
 */
function framesOf(error: Error): ReadonlyArray<string> {
  const frames = withoutLoadMark(error.stack ?? "")
    .split("\n")
    .filter((line) => isFrame(line) && !line.includes("node:") && !line.includes(OWN_FOLDER));
  const own = frames.filter((line) => !line.includes("/node_modules/"));
  return own.length > 0 ? own : frames;
}

const isFrame = (line: string): boolean => /^\s+at /.test(line);
