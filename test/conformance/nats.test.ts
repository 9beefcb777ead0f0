/** The NATS adapters against the rules of the ports, on a real nats-server; the machine's time. */
import { setTimeout as pass } from "node:timers/promises";
import { describe } from "vitest";
import { machineTime } from "../../services/node/MachineTime.ts";
import { deliveryLogRules } from "./deliveryLogRules.ts";
import { busRules } from "./busRules.ts";
import { feedRules } from "./feedRules.ts";
import { inboxRules } from "./inboxRules.ts";
import { journalRules } from "./journalRules.ts";
import { leaseRules } from "./leaseRules.ts";
import { natsBackend } from "./natsBackend.ts";
import { storeRules } from "./storeRules.ts";
import { timeRules } from "./timeRules.ts";
import { timerRules } from "./timerRules.ts";

describe("nats", () => {
  journalRules(natsBackend);
  feedRules(natsBackend);
  inboxRules(natsBackend);
  leaseRules(natsBackend);
  storeRules(natsBackend);
  deliveryLogRules(natsBackend);
  busRules(natsBackend);
  timerRules(natsBackend);
  timeRules(machineTime, (ms) => pass(ms));
});
