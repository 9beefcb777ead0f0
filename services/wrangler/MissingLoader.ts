/**
 * Stands in `env` for a binding of `worker_loaders`, which is not available here, and throws where
 * it is used: an app that offers generated code beside other things runs without it.
 *
 * The reference's platform runs such code in a sandbox: an isolate with its own bindings, and by
 * `globalOutbound: null` without a network. Node has nothing that is one. Its documentation says
 * that `node:vm` is no security mechanism and that the permission model does not protect against
 * malicious code; a worker thread has the process's files, network and environment.
 */
export class MissingLoader {
  readonly #name: string;

  /** `name`: of the binding. */
  constructor(name: string) {
    this.#name = name;
  }

  get(): never {
    throw this.#error("get");
  }

  load(): never {
    throw this.#error("load");
  }

  #error(method: string): Error {
    return new Error(
      `${this.#name}.${method}() is not available here: a worker loader runs code in a sandbox, and Node has none. Import code that you trust with import(), and run any other in a container that you call with fetch`,
    );
  }
}
