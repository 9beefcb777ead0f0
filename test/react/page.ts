/** A page for React without a browser (happy-dom), and a component that shows `useAgent`. */
import { Window } from "happy-dom";
import { Component, createElement, StrictMode, Suspense, useEffect, type ReactNode } from "react";
import type { Root } from "react-dom/client";
import { WebSocket } from "ws";
import type { useAgent, UseAgentOptions, UseAgentResult } from "../../services/react/index.ts";
import { AT_ONCE } from "../client/clients.ts";
import { pollUntil } from "../kit/poll.ts";

export type Hook = typeof useAgent;
export type AnyAgent = UseAgentResult<unknown, unknown>;
export type Options = Partial<UseAgentOptions<unknown>>;

/** Before react-dom is imported: it looks once. */
export function installWindow(): void {
  const window = new Window({ url: "http://localhost:1/" });
  for (const [name, value] of Object.entries({
    window,
    document: window.document,
    navigator: window.navigator,
  }))
    // Later Nodes have a `navigator` that can't be assigned.
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
}

export interface Mounted {
  /** What the hook gave last; of a suspended component, what it gave before. */
  readonly agent: AnyAgent;
  /** Everything it gave, a new object only. */
  readonly agents: AnyAgent[];
  readonly renders: number;
  readonly text: string;
  readonly update: (options: Options) => void;
  readonly unmount: () => void;
  readonly shows: (text: string) => Promise<unknown>;
}

export interface MountOptions {
  readonly strict?: boolean;
  /** Runs in the component's own effect, at each mount. */
  readonly effect?: (agent: AnyAgent) => void;
  /** What the component shows. */
  readonly show?: (agent: AnyAgent) => unknown;
}

class Boundary extends Component<{ children: ReactNode }> {
  override state: { error?: Error } = {};
  static getDerivedStateFromError = (error: Error) => ({ error });
  override render(): ReactNode {
    const { error } = this.state;
    return error === undefined ? this.props.children : `failed: ${error.message}`;
  }
}

/** Mounts components of one hook, and unmounts them all. */
export class Page {
  readonly #hook: Hook;
  readonly #host: string;
  readonly #roots: Root[] = [];

  constructor(hook: Hook, host: string) {
    this.#hook = hook;
    this.#host = host;
  }

  async mount(first: Options = {}, how: MountOptions = {}): Promise<Mounted> {
    const { createRoot } = await import("react-dom/client");
    const element = document.createElement("div");
    const root = createRoot(element, { onCaughtError: () => undefined });
    this.#roots.push(root);
    const agents: AnyAgent[] = [];
    let renders = 0;
    const hook = this.#hook;
    const show = how.show ?? ((agent) => agent.state);
    const Probe = ({ options }: { options: Options }) => {
      const agent = hook<unknown, unknown>({
        agent: "RoomAgent",
        host: this.#host,
        WebSocket,
        ...AT_ONCE,
        ...options,
      });
      renders += 1;
      if (agents.at(-1) !== agent) agents.push(agent);
      useEffect(() => how.effect?.(agent), []);
      return JSON.stringify(show(agent)) ?? "undefined";
    };
    const update = (options: Options): void => {
      const probe = createElement(Probe, { options });
      const suspense = createElement(Suspense, { fallback: "waiting" }, probe);
      const tree = createElement(Boundary, null, suspense);
      root.render(how.strict ? createElement(StrictMode, null, tree) : tree);
    };
    update(first);
    const text = (): string => element.textContent ?? "";
    await pollUntil("it rendered", () => text() !== "", { intervalMs: 1 });
    return {
      get agent() {
        return agents.at(-1)!;
      },
      agents,
      get renders() {
        return renders;
      },
      get text() {
        return text();
      },
      update,
      unmount: () => root.unmount(),
      shows: (wanted) =>
        pollUntil(
          `it shows ${wanted}`,
          () => (text() === wanted ? { done: true, value: true } : { done: false, saw: text() }),
          { intervalMs: 1 },
        ),
    };
  }

  close(): void {
    for (const root of this.#roots.splice(0)) root.unmount();
  }
}
