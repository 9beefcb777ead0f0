/**
 * Starts tracing if the environment asks for it. `OTEL_*` variables configure the OpenTelemetry
 * SDK, which is an optional peer (`@opentelemetry/sdk-node`); a provider that the user has
 * registered (`node --import ./otel.js`) is used as it is.
 */
import { ProxyTracerProvider, trace } from "@opentelemetry/api";
import type { LogShape } from "../../core/telemetry/Log.ts";
import type { TracingShape } from "../../core/telemetry/Tracing.ts";
import { otelTracing } from "./otelTracing.ts";
import { messageOf } from "../../core/errors/thrown.ts";

export interface StartedOtel {
  readonly tracing: TracingShape;
  /** Sends the remaining spans. */
  readonly stop: () => Promise<void>;
}

type Variables = Readonly<Record<string, string | undefined>>;

/** True if the variables enable the export of traces. */
export function asksForTraces(env: Variables): boolean {
  if (/^true$/i.test(env["OTEL_SDK_DISABLED"] ?? "")) return false;
  const exporter = readVariable(env, "OTEL_TRACES_EXPORTER");
  if (exporter !== undefined) return exporter !== "none";
  return ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"].some(
    (name) => readVariable(env, name) !== undefined,
  );
}

/** An empty variable counts as one that is not set, as OpenTelemetry specifies. */
const readVariable = (env: Variables, name: string): string | undefined =>
  env[name] === "" ? undefined : env[name];

/** Undefined: nothing is traced. The service is `agents-<role>` without `OTEL_SERVICE_NAME`. */
export async function startOtel(
  env: Variables,
  role: string,
  log: LogShape,
): Promise<StartedOtel | undefined> {
  if (isRegistered()) return { tracing: otelTracing(), stop: async () => undefined };
  if (!asksForTraces(env)) return undefined;
  let sdk: { start: () => void; shutdown: () => Promise<void> };
  try {
    const { NodeSDK } = await import("@opentelemetry/sdk-node");
    sdk = new NodeSDK({
      serviceName: readVariable(env, "OTEL_SERVICE_NAME") ?? `agents-${role}`,
      instrumentations: [],
      // Logs and metrics are provided in other ways (standard error, `/metrics`).
      logRecordProcessors: [],
      metricReaders: [],
    });
  } catch (error) {
    log.warn(
      "OTEL_* enables traces, but the SDK can't be loaded: npm install @opentelemetry/sdk-node",
      { error: messageOf(error) },
    );
    return undefined;
  }
  sdk.start();
  return {
    tracing: otelTracing(),
    stop: () =>
      sdk
        .shutdown()
        .catch((error: unknown) =>
          log.warn("the last spans could not be sent", { error: String(error) }),
        ),
  };
}

/** True if the user registered a provider before this process's own code ran. */
function isRegistered(): boolean {
  const provider = trace.getTracerProvider();
  const own = provider instanceof ProxyTracerProvider ? provider.getDelegate() : provider;
  return own.constructor.name !== "NoopTracerProvider";
}
