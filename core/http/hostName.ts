/**
 * The name that a request asks for in its Host header, and whether it means this machine. A page of another
 * site whose name resolves to 127.0.0.1 (DNS rebinding) sends its own name there, so servers that listen on
 * loopback compare it: the admin port and the console.
 */

/** Without the port and IPv6's brackets, lower case, no final dot. An HTTP/1.0 caller may send none, and then means the server that it called. */
export function hostName(header: string | undefined): string {
  if (header === undefined) return "localhost";
  return header
    .replace(/:\d*$/, "")
    .replace(/^\[(.*)\]$/, "$1")
    .replace(/\.$/, "")
    .toLowerCase();
}

/** Expects what `hostName` returns. */
export const isLoopbackName = (name: string): boolean =>
  name === "localhost" || name === "::1" || /^127(?:\.\d{1,3}){3}$/.test(name);
