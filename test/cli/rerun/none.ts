/** A module without the class that is asked for. */
import { Agent } from "agents";

export class OtherAgent extends Agent {}
