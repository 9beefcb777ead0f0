/** Prints an input with its bytes, as its sender sent it. */
import type { Cause } from "../../../schemas/JournalEvent.ts";
import { oneLine } from "../../../core/telemetry/printable.ts";
import type { Terminal } from "./Terminal.ts";

export function printInput(
  terminal: Terminal,
  { method = "POST", url, headers = {}, body, bodyBase64 }: Cause,
): void {
  if (url !== undefined) terminal.out(`    ${method} ${oneLine(url)}`);
  for (const [name, value] of Object.entries(headers))
    terminal.out(`    ${name}: ${oneLine(value)}`);
  if (body !== undefined) terminal.out(`\n${body}`);
  if (bodyBase64 !== undefined) terminal.out(`\n(base64) ${bodyBase64}`);
}
