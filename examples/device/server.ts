/**
 * An agent per device: its twin. The state has the desired and the reported values. The device
 * follows it over a WebSocket and reports back; apps set desired values at any time, also while the
 * device is offline. A device that is silent for a minute is shown as offline.
 *
 * Start it with `npx agents dev examples/device/server.ts`. README.md says what to try.
 */
import {
  Agent,
  callable,
  getCurrentAgent,
  type Connection,
  type ConnectionContext,
  type Module,
} from "agents";

type Settings = Readonly<Record<string, string | number | boolean>>;
export interface Twin {
  readonly desired: Settings;
  readonly reported: Settings;
  readonly online: boolean;
}
interface Env {
  /** Devices authenticate with it: `?key=`. Without it no connection is a device's. */
  readonly DEVICE_KEY?: string;
}

/** Three missed beats of a device that reports every twenty seconds. */
const SILENCE_SECONDS = 60;

export class DeviceTwin extends Agent<Env, Twin> {
  override initialState: Twin = { desired: {}, reported: {}, online: false };

  override async onConnect(connection: Connection, { request }: ConnectionContext): Promise<void> {
    if (!isDevice(request, this.env.DEVICE_KEY)) return;
    connection.setState({ device: true });
    await this.#alive();
  }

  /** From an app: desired values, which are merged. They take effect when the device is back. */
  @callable()
  desire(settings: Settings): Twin {
    checkSettings(settings);
    this.setState({ ...this.state, desired: { ...this.state.desired, ...settings } });
    return this.state;
  }

  /** From the device: its current values. Also counts as a sign of life. */
  @callable()
  async report(settings: Settings): Promise<Settings> {
    const from = getCurrentAgent().connection?.state as { readonly device?: boolean } | null;
    if (from?.device !== true) throw new Error("only the device reports");
    checkSettings(settings);
    await this.#alive(settings);
    return this.#difference();
  }

  async silent(): Promise<void> {
    this.setState({ ...this.state, online: false });
  }

  /**
   * Each sign of life postpones the time at which the device counts as offline. The state comes
   * first: turns interleave at their awaits, so after one an earlier report could win.
   */
  async #alive(settings: Settings = {}): Promise<void> {
    this.setState({
      ...this.state,
      reported: { ...this.state.reported, ...settings },
      online: true,
    });
    const waiting = this.getSchedules().filter(({ callback }) => callback === "silent");
    for (const { id } of waiting) await this.cancelSchedule(id);
    await this.schedule("silent", { delayInSeconds: SILENCE_SECONDS });
  }

  /** Desired values that are not reported yet. */
  #difference(): Settings {
    const { desired, reported } = this.state;
    return Object.fromEntries(
      Object.entries(desired).filter(([key, value]) => reported[key] !== value),
    );
  }

  override validateStateChange(_next: Twin, source: Connection | "server"): void {
    if (source !== "server") throw new Error("call desire or report");
  }
}

const isDevice = (request: Request, key: string | undefined): boolean =>
  Boolean(key) && new URL(request.url).searchParams.get("key") === key;

/** Clients send any JSON. */
function checkSettings(settings: unknown): asserts settings is Settings {
  const isObject = typeof settings === "object" && settings !== null && !Array.isArray(settings);
  if (!isObject || !Object.values(settings).every(isValue))
    throw new Error("settings are an object of texts, numbers and booleans");
}

const isValue = (value: unknown): boolean => ["string", "number", "boolean"].includes(typeof value);

export default {} satisfies Module<Env>;
