/**
 * Declares the options of a gateway's limits: connections, rates, proxies, and whether webhooks are
 * stored first. `options.ts` has the options that other commands share.
 */
import { Option } from "commander";
import { readWhole } from "./options.ts";

export const connectionsMax = (): Option =>
  new Option("--max-connections <count>", "connections past which new ones are closed")
    .env("AGENTS_MAX_CONNECTIONS")
    .argParser((text: string) => readWhole(text, 1, 10_000_000));

export const perAddress = (): Option =>
  new Option("--rate-per-address <count>", "requests a second of one address; past it: 429")
    .env("AGENTS_RATE_PER_ADDRESS")
    .argParser((text: string) => readWhole(text, 1, 1_000_000));

export const perEntity = (): Option =>
  new Option(
    "--rate-per-entity <count>",
    "webhooks and sockets a second of one agent; past it: 429",
  )
    .env("AGENTS_RATE_PER_ENTITY")
    .argParser((text: string) => readWhole(text, 1, 1_000_000));

// The defaults are those of `SocketRates`, which the command line does not load for its help.
export const framesPerSocket = (): Option =>
  new Option(
    "--frames-per-socket <count>",
    "messages and pings a second of one socket, and four times as many of one address; past it the socket is closed with 1013 (5,000 if not said; 0: no limit)",
  )
    .env("AGENTS_FRAMES_PER_SOCKET")
    .argParser((text: string) => readWhole(text, 0, 1_000_000));

export const bytesPerSocket = (): Option =>
  new Option(
    "--bytes-per-socket <count>",
    "bytes of messages a second of one socket, likewise (8 MiB if not said; 0: no limit)",
  )
    .env("AGENTS_BYTES_PER_SOCKET")
    .argParser((text: string) => readWhole(text, 0, 1_000_000_000));

export const storeFirst = (): Option =>
  new Option(
    "--store-first",
    "store every webhook before its agent gets it, and once more with what it did (slower; docs/guides/webhooks.md)",
  ).env("AGENTS_STORE_FIRST");

export const trustedProxies = (): Option =>
  new Option("--trusted-proxies <count>", "proxies in front whose X-Forwarded-For is believed")
    .env("AGENTS_TRUSTED_PROXIES")
    .argParser((text: string) => readWhole(text, 0, 16));
