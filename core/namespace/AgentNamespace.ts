/**
 * `env.RepoAgent`: the binding of an agent class (`protocol.md` §1, `interface.md` §4). It
 * identifies agents by name, starts them and returns their stubs, which `makeStub` creates.
 */
import { agentId } from "../../schemas/Address.ts";
import { topLevelId, type TopLevelId } from "../../schemas/AgentPath.ts";
import { decodeError } from "../call/remoteError.ts";
import type { MailInput } from "../mail/AgentEmail.ts";
import type { MailDrop } from "../mail/mailDrop.ts";
import { refuseMisspelt } from "../errors/checkOptions.ts";
import type { AgentStub } from "./AgentStub.ts";
import { instanceId, type AgentInstanceId } from "./instanceId.ts";
import { makeStub } from "./makeStub.ts";
import { STUB_DEADLINE_MS, type CallClientSource } from "./stubTarget.ts";

/** Options of `getAgentByName` and of a binding's `getByName`. */
export interface StubOptions {
  /** Passed to `onStart` when a call of this stub starts the agent. JSON. */
  readonly props?: unknown;
  /** Accepted for apps written for the reference, and ignored. */
  readonly locationHint?: string;
  /** Accepted for apps written for the reference, and ignored. */
  readonly jurisdiction?: string;
  /** Accepted and ignored: calls always wait for an agent that moves between hosts. */
  readonly routingRetry?: unknown;
}

const STUB_OPTIONS: ReadonlySet<string> = new Set<keyof StubOptions>([
  "props", "locationHint", "jurisdiction", "routingRetry",
]); // prettier-ignore

/** The binding of one agent class, in `env` under the name of the class. */
export class AgentNamespace<A = unknown> {
  /** Name of the agent class. */
  readonly className: string;
  readonly #client: CallClientSource;
  readonly #mail: MailDrop | undefined;

  constructor(className: string, client: CallClientSource, mail?: MailDrop) {
    this.className = className;
    this.#client = client;
    this.#mail = mail;
  }

  /** The source of its calls. Static: users' code, which has the binding, can't reach it. */
  static callsOf(namespace: AgentNamespace): CallClientSource {
    return namespace.#client;
  }

  /**
   * The id of the agent with this name. Throws `InvalidAddress` for an empty name, one longer than
   * 1,024 bytes of UTF-8, and one that begins with "/", as sub-agents' names do.
   */
  idFromName(name: string): AgentInstanceId {
    return instanceId(this.#idOf(name));
  }

  /** A stub for the agent with this id. Does not start the agent. Throws `InvalidAddress`. */
  get(id: AgentInstanceId, options: StubOptions = {}): AgentStub<A> {
    return makeStub<A>(this.#client, this.#idOf(id.name), options);
  }

  /** A stub for the agent with this name. Does not start the agent. Throws `InvalidAddress`. */
  getByName(name: string, options: StubOptions = {}): AgentStub<A> {
    return this.get(this.idFromName(name), options);
  }

  /**
   * For `routeAgentEmail`: resolves once the message is in the agent's inbox. Rejects with
   * `MailNotStored` or `InvalidAddress`.
   */
  async takeMail(
    name: string,
    mail: MailInput,
    { isSigned = false }: { readonly isSigned?: boolean } = {},
  ): Promise<void> {
    if (this.#mail === undefined)
      throw new Error(
        `routeAgentEmail: this process does not receive mail, so nothing was stored for ${this.className}. Call it in the module's email handler`,
      );
    // An address that this installation signed is trusted, even that of a sub-agent.
    return this.#mail(isSigned ? agentId(this.className, name) : this.#idOf(name), mail);
  }

  /**
   * Starts the agent and waits until `onStart` has finished. Rejects with the error of `onStart`,
   * `InvalidAddress` or `AgentUnreachable`.
   */
  async start(name: string, props?: unknown): Promise<void> {
    const id = this.#idOf(name);
    const options = { deadlineMs: STUB_DEADLINE_MS, repeatable: true };
    const given = props === undefined ? {} : { props };
    const { reply } = await this.#client().call(id, { kind: "state", ...given }, options);
    if (reply.kind === "error") throw decodeError(reply);
  }

  #idOf(name: string): TopLevelId {
    return topLevelId(this.className, name);
  }
}

/** A binding as the platform's own types declare it: `DurableObjectNamespace<A>`. */
export interface PlatformNamespace {
  /** The id of a name. */
  idFromName(name: string): unknown;
  /** The stub of an id. */
  get(id: never): unknown;
}

/**
 * Starts the agent `name` of a binding and resolves to a stub for it. Rejects with
 * `InvalidAddress`, `AgentUnreachable`, the error of `onStart`, or `TypeError` for a value that is
 * not a binding and for a misspelt option.
 */
export async function getAgentByName<A = unknown>(
  namespace: AgentNamespace<A>,
  name: string,
  options?: StubOptions,
): Promise<AgentStub<A>>;
/** As above with the platform's types: the stub has the type that the binding's `get` returns. */
export async function getAgentByName<N extends PlatformNamespace>(
  namespace: N,
  name: string,
  options?: StubOptions,
): Promise<ReturnType<N["get"]>>;
/** The same with the reference's type parameters. */
export async function getAgentByName<_Env, A>(
  namespace: PlatformNamespace,
  name: string,
  options?: StubOptions,
): Promise<AgentStub<A>>;
export async function getAgentByName<A>(
  namespace: AgentNamespace<A> | PlatformNamespace,
  name: string,
  options: StubOptions = {},
): Promise<unknown> {
  if (typeof (namespace as Partial<AgentNamespace<A>> | undefined)?.idFromName !== "function")
    throw new TypeError(
      "getAgentByName: the first argument is not an agent binding. Export the class from the module and use env.<ClassName>",
    );
  refuseMisspelt("getAgentByName", options, STUB_OPTIONS);
  const agents = namespace as AgentNamespace<A>;
  await agents.start(name, options.props);
  return agents.getByName(name, options);
}
