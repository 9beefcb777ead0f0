/**
 * Names that `await` and loggers look up on any object. On a stub they are never methods of the
 * object that it stands for; nor are symbols. Read by every kind of stub.
 */
const NOT_REMOTE = new Set<PropertyKey>(["then", "catch", "finally", "toJSON", "constructor"]);

export const isRemoteMethod = (key: PropertyKey): key is string =>
  typeof key === "string" && !NOT_REMOTE.has(key);
