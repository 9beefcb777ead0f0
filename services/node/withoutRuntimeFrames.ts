/**
 * Shortens the stack of an error to the frames that the author of a module can act on. This
 * package's frames below the module's code are the same each time. Those above it stay: they name
 * the function that refused something.
 */
import { fileURLToPath } from "node:url";
import { CAUSED_BY } from "../../core/errors/thrown.ts";
import { ownFolder } from "../ownPackage/ownFile.ts";

/** How a line of a stack begins that is no message. */
export const FRAME = "    at ";
/** `chunks`: of built code. */
const RUNTIME = ["core/", "services/", "chunks/"].map(
  (folder) => fileURLToPath(ownFolder) + folder,
);
const OTHERS = ["node:", "(<anonymous>)"];

const isAuthors = (line: string): boolean =>
  line.startsWith(FRAME) && ![...RUNTIME, ...OTHERS].some((part) => line.includes(part));

/** Whether code of a module, or of a package that it uses, is part of the stack. */
export const hasAuthorFrames = (stack: string): boolean => stack.split("\n").some(isAuthors);

/** A stack of this package's frames only stays as it is. Causes are shortened too. */
export const withoutRuntimeFrames = (stack: string): string =>
  stack
    .split(CAUSED_BY)
    .map((part) => {
      const lines = part.split("\n");
      const last = lines.findLastIndex(isAuthors);
      const end = lines.findLastIndex((line) => line.startsWith(FRAME));
      return last < 0 ? part : [...lines.slice(0, last + 1), ...lines.slice(end + 1)].join("\n");
    })
    .join(CAUSED_BY);
