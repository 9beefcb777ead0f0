/** The address of a server in URLs and messages, where an IPv6 address is in brackets. */
export const hostAndPort = (hostname: string, port: number): string =>
  `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
