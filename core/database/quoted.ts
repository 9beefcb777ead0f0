/** A name in SQL, whatever characters it has. */
export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`;
