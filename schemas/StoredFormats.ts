/**
 * The version of all stored formats together. It is raised when one of them changes so that the
 * release before can't read what this one writes. `agents provision` stores it at the broker, and
 * a process that knows only a smaller one refuses to start there, before it claims anything: it
 * would take what it can't read for damage.
 *
 * If it is absent at the broker, or in a file of `agents backup` or `agents export`, it is 1.
 * Releases older than November 2026 do not look.
 */
import { CorruptFrame, UnknownVersion } from "./Frame.ts";

/** No release has raised it yet. */
export const STORED_FORMATS = 1;

/**
 * `formats`: what a file says about them; absent: 1. Throws `UnknownVersion` for a file that a
 * release with later formats has written, `CorruptFrame` for what is no version.
 */
export function refuseNewerFormats(what: string, formats: unknown = 1): void {
  if (typeof formats !== "number" || !Number.isSafeInteger(formats) || formats < 1)
    throw new CorruptFrame({
      message: `${what} does not say which version its stored formats have: "formats" is not a whole number from 1 on. It was changed or damaged`,
    });
  if (formats > STORED_FORMATS)
    throw new UnknownVersion({
      version: formats,
      message: `${what} is of a newer release: its stored formats are of version ${formats}, and this release reads ${STORED_FORMATS} at most. Use a release that is as new as the one that wrote it`,
    });
}
