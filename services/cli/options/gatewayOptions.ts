/**
 * Declares the options of a gateway's limits: connections, rates, proxies, and whether webhooks are
 * stored first. `options.ts` has the options that other commands share.
 */
import { Option } from "commander";
import { readWhole } from "./options.ts";

export const connectionsMax = (): Option =>
  new Option("--max-connections <count>", "maximum number of connections; further ones are closed")
    .env("AGENTS_MAX_CONNECTIONS")
    .argParser((text: string) => readWhole(text, 1, 10_000_000));

export const perAddress = (): Option =>
  new Option("--rate-per-address <count>", "requests per second from one address; above it: 429")
    .env("AGENTS_RATE_PER_ADDRESS")
    .argParser((text: string) => readWhole(text, 1, 1_000_000));

export const perEntity = (): Option =>
  new Option(
    "--rate-per-entity <count>",
    "webhooks and new sockets per second for one agent; above it: 429",
  )
    .env("AGENTS_RATE_PER_ENTITY")
    .argParser((text: string) => readWhole(text, 1, 1_000_000));

export const socketsPerAddress = (): Option =>
  new Option("--sockets-per-address <count>", "open sockets from one address; above it: 429")
    .env("AGENTS_SOCKETS_PER_ADDRESS")
    .argParser((text: string) => readWhole(text, 1, 10_000_000));

// The defaults are those of `SocketRates`, which the command line does not load for its help.
export const framesPerSocket = (): Option =>
  new Option(
    "--frames-per-socket <count>",
    "maximum messages and pings per second on one socket, and four times as many from one address; above it, the socket is closed with code 1013 (default: 5,000; 0: no limit)",
  )
    .env("AGENTS_FRAMES_PER_SOCKET")
    .argParser((text: string) => readWhole(text, 0, 1_000_000));

export const bytesPerSocket = (): Option =>
  new Option(
    "--bytes-per-socket <count>",
    "maximum bytes of messages per second on one socket, and four times as many from one address; above it, as --frames-per-socket (default: 8 MiB; 0: no limit)",
  )
    .env("AGENTS_BYTES_PER_SOCKET")
    .argParser((text: string) => readWhole(text, 0, 1_000_000_000));

export const storeFirst = (): Option =>
  new Option(
    "--store-first",
    "store every webhook before its agent receives it (slower; docs/guides/webhooks.md)",
  ).env("AGENTS_STORE_FIRST");

export const trustedProxies = (): Option =>
  new Option("--trusted-proxies <count>", "number of proxies whose X-Forwarded-For is trusted")
    .env("AGENTS_TRUSTED_PROXIES")
    .argParser((text: string) => readWhole(text, 0, 16));
