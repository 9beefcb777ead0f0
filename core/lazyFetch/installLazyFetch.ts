/**
 * Replaces the platform's `Request` and `Response` with lazy ones, once per process.
 * `new Response(…)` in an agent's code makes an object whose parts are built when they are read;
 * `fetch` and `new Request(…)` receive the platform's request behind a lazy one. Subclasses of the
 * platform's classes, and unusual arguments, use the platform's own.
 *
 * A body that is a stream needs no `duplex`, as on the reference's platform: `fetch(url, { method,
 * body: request.body })`, with which apps pass requests on, would throw.
 */
import { LazyRequest } from "./LazyRequest.ts";
import { LazyResponse } from "./LazyResponse.ts";

const INSTALLED = Symbol.for("agents.lazyFetch");

export function installLazyFetch(): void {
  if (INSTALLED in globalThis) return;
  Object.defineProperty(globalThis, INSTALLED, { value: true });

  const NativeRequest = globalThis.Request;
  const request: typeof Request = new Proxy(NativeRequest, {
    construct: (native, [input, ...rest]: [unknown, ...unknown[]], target): Request =>
      Reflect.construct(
        native,
        [LazyRequest.unwrap(input), ...rest.map(withDuplex)],
        target === request ? native : target,
      ),
  });
  globalThis.Request = request;

  const NativeResponse = globalThis.Response;
  const json = (...args: Parameters<typeof Response.json>): Response => {
    const [data, init] = args;
    const text = JSON.stringify(data) as string | undefined;
    return (
      (text === undefined ? undefined : LazyResponse.make(text, init, "application/json")) ??
      NativeResponse.json(...args)
    );
  };
  const response: typeof Response = new Proxy(NativeResponse, {
    construct: (native, args: [unknown, unknown], target): Response =>
      target === response
        ? (LazyResponse.make(args[0], args[1]) ?? Reflect.construct(native, args))
        : Reflect.construct(native, args, target),
    get: (native, name, receiver) =>
      name === "json" ? json : (Reflect.get(native, name, receiver) as unknown),
  });
  globalThis.Response = response;

  for (const Class of [request, response])
    Object.defineProperty(Class.prototype, "constructor", { value: Class });

  const plain = globalThis.fetch;
  globalThis.fetch = Object.assign(
    (input: Parameters<typeof fetch>[0], init?: RequestInit) =>
      plain(LazyRequest.unwrap(input), withDuplex(init)),
    plain,
  );
  LazyRequest.enable();
  LazyResponse.enable();
}

/** `duplex` is "half" where the body is a stream, which the platform demands. */
function withDuplex<A>(init: A): A {
  if (typeof init !== "object" || init === null || "duplex" in init) return init;
  if (!("body" in init) || !(init.body instanceof ReadableStream)) return init;
  return Object.create(init, { duplex: { value: "half", enumerable: true } }) as A;
}
