/**
 * Builds the parts of one of the AI SDK's UI messages from the chunks of its stream. Pure: a part
 * that a chunk changes becomes a new object, so that React sees the change.
 *
 * 1. A late or repeated chunk never moves a tool call back: each kind of chunk names the states
 *    that it may follow.
 * 2. A chunk of an unknown kind, or one that refers to a missing part, changes nothing.
 */

type Fields = Readonly<Record<string, unknown>>;
/** A part or a chunk: a JSON object with a type. */
export type Typed = Fields & { readonly type: string };

interface ToolChunk {
  /** Rule 1: whether it changes a part in this state. */
  readonly follows: (state: unknown) => boolean;
  /** Whether it creates the part of a call that has none. */
  readonly begins?: true;
  /** The fields that it sets in the part. */
  readonly fields: (chunk: Typed) => Fields;
}

const SETTLED: ReadonlyArray<unknown> = ["output-available", "output-error", "output-denied"];
const isOpen = (state: unknown): boolean => !SETTLED.includes(state);
const isStreaming = (state: unknown): boolean => state === "input-streaming";

const TOOL_CHUNKS: ReadonlyMap<string, ToolChunk> = new Map<string, ToolChunk>([
  [
    "tool-input-start",
    {
      follows: () => false,
      begins: true,
      fields: (chunk) => ({ state: "input-streaming", ...called(chunk), ...titled(chunk) }),
    },
  ],
  ["tool-input-delta", { follows: isStreaming, fields: ({ input }) => ({ input }) }],
  [
    "tool-input-available",
    {
      follows: isStreaming,
      begins: true,
      fields: (chunk) => ({
        state: "input-available",
        input: inputOf(chunk),
        ...called(chunk),
        ...titled(chunk),
      }),
    },
  ],
  [
    "tool-input-error",
    {
      follows: isOpen,
      begins: true,
      fields: (chunk) => ({
        state: "output-error",
        errorText: chunk["errorText"],
        input: inputOf(chunk),
        ...called(chunk),
      }),
    },
  ],
  [
    "tool-approval-request",
    {
      follows: isOpen,
      fields: ({ approvalId, approvalDescriptor }) => ({
        state: "approval-requested",
        approval: { id: approvalId, ...present({ descriptor: approvalDescriptor }) },
      }),
    },
  ],
  ["tool-output-denied", { follows: isOpen, fields: () => ({ state: "output-denied" }) }],
  [
    "tool-output-available",
    {
      follows: () => true,
      fields: ({ output, preliminary }) => ({
        state: "output-available",
        output,
        ...present({ preliminary }),
      }),
    },
  ],
  [
    "tool-output-error",
    { follows: () => true, fields: ({ errorText }) => ({ state: "output-error", errorText }) },
  ],
]);

/** Types of parts that a single chunk makes, with the fields that they take from it. */
const WHOLE_PARTS: ReadonlyMap<string, ReadonlyArray<string>> = new Map([
  ["file", ["mediaType", "url"]],
  ["source-url", ["sourceId", "url", "title", "providerMetadata"]],
  ["source-document", ["sourceId", "mediaType", "title", "filename", "providerMetadata"]],
]);

/** The parts after a chunk. The same array if it changes nothing (rule 2). */
export function partsAfter(parts: ReadonlyArray<Typed>, chunk: Typed): ReadonlyArray<Typed> {
  const { type } = chunk;
  const toolChunk = TOOL_CHUNKS.get(type);
  if (toolChunk !== undefined) return afterToolChunk(parts, chunk, toolChunk);
  const [, kind, phase] = /^(text|reasoning)-(start|delta|end)$/.exec(type) ?? [];
  if (kind !== undefined) return afterText(parts, chunk, kind, phase!);
  const fields = WHOLE_PARTS.get(type);
  if (fields !== undefined)
    return [
      ...parts,
      { type, ...present(Object.fromEntries(fields.map((field) => [field, chunk[field]]))) },
    ];
  if (type === "start-step" || type === "step-start") return [...parts, { type: "step-start" }];
  return type.startsWith("data-") ? afterData(parts, chunk) : parts;
}

function afterToolChunk(
  parts: ReadonlyArray<Typed>,
  chunk: Typed,
  { follows, begins, fields }: ToolChunk,
): ReadonlyArray<Typed> {
  const { toolCallId, toolName } = chunk;
  const at = parts.findLastIndex((part) => toolCallId && part["toolCallId"] === toolCallId);
  if (at < 0)
    return begins === true
      ? [...parts, { type: `tool-${String(toolName)}`, toolCallId, toolName, ...fields(chunk) }]
      : parts;
  const part = parts[at]!;
  return follows(part["state"]) ? parts.with(at, { ...part, ...fields(chunk) }) : parts;
}

/** Text and reasoning. A delta without a start creates a part, for a reader that joined later. */
function afterText(
  parts: ReadonlyArray<Typed>,
  chunk: Typed,
  type: string,
  phase: string,
): ReadonlyArray<Typed> {
  const at = parts.findLastIndex((part) => part.type === type);
  const part = parts[at];
  const metadata = type === "reasoning" ? mergedMetadata(part, chunk) : {};
  if (phase === "end")
    return part === undefined ? parts : parts.with(at, { ...part, state: "done", ...metadata });
  if (phase === "start") return [...parts, { type, text: "", state: "streaming" }];
  const delta = String(chunk["delta"] ?? "");
  if (part === undefined) return [...parts, { type, text: delta, state: "streaming", ...metadata }];
  return parts.with(at, { ...part, text: `${String(part["text"])}${delta}`, ...metadata });
}

/** The app's data. Data of the same type and id is replaced; transient data is not a part. */
function afterData(parts: ReadonlyArray<Typed>, chunk: Typed): ReadonlyArray<Typed> {
  const { type, id, data, transient } = chunk;
  if (transient) return parts;
  const isIt = (part: Typed): boolean => part.type === type && part["id"] === id;
  const at = id === undefined || id === null ? -1 : parts.findLastIndex(isIt);
  if (at >= 0) return parts.with(at, { ...parts[at]!, data });
  return [...parts, { type, ...present({ id }), data }];
}

function mergedMetadata(part: Typed | undefined, { providerMetadata }: Typed): Fields {
  if (!isRecord(providerMetadata)) return {};
  return { providerMetadata: { ...(part?.["providerMetadata"] as Fields), ...providerMetadata } };
}

const called = ({ providerExecuted, providerMetadata }: Typed): Fields =>
  present({ providerExecuted, callProviderMetadata: providerMetadata });
const titled = ({ title }: Typed): Fields => present({ title });

/** An input that is not an object, which providers refuse, becomes an empty object. */
function inputOf({ input }: Typed): Fields {
  if (isRecord(input)) return input;
  try {
    const parsed: unknown = typeof input === "string" ? JSON.parse(input) : undefined;
    return isRecord(parsed) ? parsed : {};
  } catch {
    return {};
  }
}

const isRecord = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const present = (fields: Fields): Fields =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && value !== null),
  );
