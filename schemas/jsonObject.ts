/**
 * Reads text that must be one JSON object, as the first step of reading a file (`AgentFile`,
 * `BackupFile`, `ErasureReceipt`).
 */
import { CorruptFrame } from "./Frame.ts";

/** Throws `CorruptFrame` with `message` if it is anything else. */
export function jsonObject(text: string, message: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // Reported below.
  }
  throw new CorruptFrame({ message });
}
