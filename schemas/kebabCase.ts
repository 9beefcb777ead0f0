/**
 * The form of a class name in URLs and identity frames. A separate file without imports, since
 * servers and browsers share it.
 */

/**
 * Converts a class name to kebab case, as the reference does (`protocol.md` §1): a name in capitals
 * is lowered; in any other name each capital starts a word.
 */
export function camelCaseToKebabCase(value: string): string {
  if (value === value.toUpperCase() && value !== value.toLowerCase())
    return value.toLowerCase().replace(/_/g, "-");
  return value
    .replace(/[A-Z]/g, (c) => "-" + c.toLowerCase())
    .replace(/^-/, "")
    .replace(/_/g, "-")
    .replace(/-$/, "");
}
