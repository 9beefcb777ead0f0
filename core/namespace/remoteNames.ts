/**
 * Names that `await` and loggers look up on any object. On a stub, neither they nor symbols are
 * remote methods. Used by every kind of stub.
 */
const NOT_REMOTE = new Set<PropertyKey>(["then", "catch", "finally", "toJSON", "constructor"]);

/** A stub's `toJSON`, which throws, since its JSON would be `{}`. `of` says whose stub it is. */
export const refuseJson = (of: string) => (): never => {
  throw new TypeError(
    `a stub of ${of} can't be stored, or sent as JSON: pass the name, and get a stub where it is needed`,
  );
};

export const isRemoteMethod = (key: PropertyKey): key is string =>
  typeof key === "string" && !NOT_REMOTE.has(key);
