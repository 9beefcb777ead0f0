/**
 * What a `wrangler.jsonc`, `wrangler.json` or `wrangler.toml` beside a module says to this system:
 * the module's path, variables, the names under which classes are bound, and static files.
 * `readWrangler` makes one; `loadModule` and the commands read it, so that an app written for the
 * reference's platform starts without an argument.
 */

/** Static files of a module. */
export interface AssetsConfig {
  /** Absolute path of the folder. */
  readonly directory: string;
  /** The name under which `env` has a fetcher of the files; undefined: none. */
  readonly binding?: string | undefined;
  /** `index.html` answers navigations to paths without a file. */
  readonly singlePage: boolean;
  /**
   * Paths that go to the module first, with `*` for any characters; a leading `!` excludes. `true`
   * is all paths, an empty list none.
   */
  readonly moduleFirst: true | ReadonlyArray<string>;
}

export interface WranglerConfig {
  /** Absolute path of the file that was read. */
  readonly file: string;
  /** Absolute path of the module; undefined where the file names none. */
  readonly main?: string | undefined;
  /** Values of `vars`; a value that is no string is kept as it is in the file. */
  readonly vars: Readonly<Record<string, unknown>>;
  /** Names of agent and workflow classes by the name of their binding. */
  readonly bindings: ReadonlyMap<string, string>;
  /** Exports that are classes of Durable Objects, agents among them. */
  readonly objects: ReadonlyArray<string>;
  /** The name of the mail binding by `send_email`, beside `EMAIL`. */
  readonly mailBindings: ReadonlyArray<string>;
  /** Names of the bindings by `worker_loaders`, each of which throws when it is used. */
  readonly loaders: ReadonlyArray<string>;
  readonly assets?: AssetsConfig | undefined;
  /** One sentence for each thing that the file asks for and this system does not have. */
  readonly notes: ReadonlyArray<string>;
}
