/**
 * Which agents have files in a local cache folder (`cachePath`), read from the files' own heads. For a host that was
 * away while agents were erased, and looks through what it has.
 */
import { opendir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { agentId, InvalidAddress, type AgentId } from "../../schemas/Address.ts";
import { CorruptFrame, decodeFrame, UnknownVersion } from "../../schemas/Frame.ts";

/** In no particular order; a folder that is not there holds none. Files that can't be read are passed over. */
export async function* cachedAgents(folder: string): AsyncGenerator<AgentId, void, void> {
  const files = await opendir(folder, { recursive: true }).catch(() => undefined);
  if (files === undefined) return;
  for await (const file of files) {
    if (!file.isFile() || !file.name.endsWith(".meta")) continue;
    const id = await idIn(join(file.parentPath, file.name));
    if (id !== undefined) yield id;
  }
}

async function idIn(path: string): Promise<AgentId | undefined> {
  // The agent may have woken meanwhile, which removes the file.
  const bytes = await readFile(path).catch(() => undefined);
  if (bytes === undefined) return undefined;
  try {
    const { head } = decodeFrame(bytes);
    return agentId(String(head["class"]), String(head["name"]));
  } catch (error) {
    if (
      error instanceof CorruptFrame ||
      error instanceof UnknownVersion ||
      error instanceof InvalidAddress
    )
      return undefined; // no cache will be made of it either
    throw error;
  }
}
