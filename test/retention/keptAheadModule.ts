/**
 * Agents for the process that trims, an hour ahead: what was stored just now is old enough to go.
 */
import { Agent } from "agents";

const now = Date.now.bind(Date);
Date.now = () => now() + 3_600_000;

export class Kept extends Agent {
  static override options = { history: { events: 3 } };
}
