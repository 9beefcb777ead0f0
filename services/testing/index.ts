/**
 * `agents/testing`: test your agents in memory, in virtual time, without a server. Works with any
 * test runner; `docs/guides/testing.md` shows how.
 */
export { testAgents, type ConnectOptions, type LogLine, type TestAgents } from "./TestAgents.ts";
export type { TestAgentsOptions } from "./TestAgentsOptions.ts";
export type { AgentLooks, StateOf, TestAgent } from "./TestAgent.ts";
export type { Closed, TestClient } from "./TestClient.ts";
export type { EmailAnswer, TestEmail } from "./TestEmail.ts";
export type { TestDeadLetter } from "./deadLetters.ts";
export type { CrashPoint } from "./joinMemory.ts";
export type { Duration } from "../../core/time/durationMs.ts";
export type { OutgoingHandler, Sent } from "./TestOutgoing.ts";
export type { HistoryLine } from "../../core/journal/historyLines.ts";
export { sign, type Sign, type SignOptions } from "../webhooks/sign.ts";
