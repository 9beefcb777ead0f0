/**
 * An abort signal that costs nothing until someone asks for it: an AbortController is an
 * EventTarget with its maps, several times the price of the rest of a small request, and most
 * handlers never look. Exchanges own one each; whoever asks after the abort gets a signal that has
 * already fired.
 */

export class AbortSource {
  #fired = false;
  #controller: AbortController | undefined;

  get fired(): boolean {
    return this.#fired;
  }

  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#fired) this.#controller.abort();
    }
    return this.#controller.signal;
  }

  fire(): void {
    this.#fired = true;
    this.#controller?.abort();
  }
}
