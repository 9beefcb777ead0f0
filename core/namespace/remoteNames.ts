/**
 * Names that `await` and loggers look up on any object. On a stub they are never methods of the
 * object that it stands for; nor are symbols. Read by every kind of stub.
 */
const NOT_REMOTE = new Set<PropertyKey>(["then", "catch", "finally", "toJSON", "constructor"]);

/** A stub's `toJSON`. Throws: JSON would make `{}` of it. `of`: whose stub. */
export const refuseJson = (of: string) => (): never => {
  throw new TypeError(
    `a stub of ${of} can't be stored, or sent as JSON: pass the name, and take a stub where it is needed`,
  );
};

export const isRemoteMethod = (key: PropertyKey): key is string =>
  typeof key === "string" && !NOT_REMOTE.has(key);
