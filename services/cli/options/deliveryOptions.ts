/** The options of commands that choose deliveries of the delivery log. */
import { Option } from "commander";
import { DELIVERY_STATUSES, type DeliveryStatus } from "../../../schemas/DeliveryRecord.ts";
import { parsed, readAgents, type ChosenAgents } from "./argumentParsers.ts";

/** The values that commander parses. */
export interface GivenFilter {
  readonly route?: string | undefined;
  readonly status?: DeliveryStatus | undefined;
  readonly agent?: ChosenAgents | undefined;
  /** Milliseconds since the epoch. */
  readonly since?: number | undefined;
}

export const routeOption = (): Option =>
  new Option("--route <path>", "only this route, as declared: /webhooks/github");
export const statusOption = (): Option =>
  new Option("--status <status>", "only with this status").choices(DELIVERY_STATUSES);
export const agentOption = (help = "only this agent or class: RepoAgent/acme~site"): Option =>
  new Option("--agent <class/name>", help).argParser(parsed(readAgents));
