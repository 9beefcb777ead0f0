/** Makes the command lines of processes that a control process starts, from its own. */

/**
 * Returns the control process's command line with the worker's options added at its end, because
 * the last value of a repeated option applies. Arguments after `--` are not options, and stay last.
 */
export function workerArguments(
  args: ReadonlyArray<string>,
  worker: number,
  port: number | undefined,
  more: ReadonlyArray<string> = [],
): ReadonlyArray<string> {
  const own = ["--worker", String(worker), "--admin-port", "0", "--admin-hostname", "127.0.0.1"];
  const shared = port === undefined ? [] : ["--port", String(port)];
  return withOptions(args, [...own, ...shared, ...more]);
}

/** Returns the command line with more options at its end, before any `--`. */
export function withOptions(
  args: ReadonlyArray<string>,
  more: ReadonlyArray<string>,
): ReadonlyArray<string> {
  const end = args.includes("--") ? args.indexOf("--") : args.length;
  return [...args.slice(0, end), ...more, ...args.slice(end)];
}
