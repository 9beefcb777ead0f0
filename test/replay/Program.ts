/** Random lives of an agent for the replay property, as data, which `ReplayRig` lives. */
import fc from "../kit/property.ts";
import { statement, type Statement } from "../sqlite/Workload.ts";

/** One thing that a turn does. */
export type Action =
  | { readonly act: "sql"; readonly statement: Statement }
  | {
      readonly act: "transaction";
      readonly statements: ReadonlyArray<Statement>;
      readonly throws: boolean;
    }
  | { readonly act: "setState"; readonly state: StateEdit }
  | { readonly act: "wait"; readonly ms: number }
  | { readonly act: "sync" };

export type StateEdit =
  | { readonly to: "value"; readonly value: unknown }
  | { readonly to: "unset" }
  /** A long text, so that changes of it are journaled as splices. */
  | { readonly to: "grow"; readonly units: number; readonly letter: string }
  | { readonly to: "splice"; readonly at: number; readonly remove: number; readonly text: string };

export type Event =
  /** A durable input; it runs beside what is still running. */
  | { readonly on: "input"; readonly actions: ReadonlyArray<Action>; readonly fails: boolean }
  /** A call: its writes are committed at once. */
  | { readonly on: "call"; readonly actions: ReadonlyArray<Action> }
  | { readonly on: "time"; readonly ms: number }
  | { readonly on: "snapshot" }
  /** After a rest, so that it may. */
  | { readonly on: "hibernate" }
  /** The shard moves, maybe in mid-commit: memory is lost, what is stored stays. */
  | { readonly on: "move" }
  /** Somebody else's event comes in between: the next append is refused. */
  | { readonly on: "conflict" }
  /** An operator puts the agent back to the nth moment that it lived. */
  | { readonly on: "restore"; readonly nth: number };

/** Milliseconds: on both sides of the time that a turn's writes gather. */
const wait = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 30 }), fc.constant(70));

const falsy = fc.constantFrom<unknown>(null, false, 0, "", -0, [], {});
const value = fc.oneof(
  falsy,
  fc.jsonValue({ maxDepth: 2 }),
  fc.record({ text: fc.string({ unit: "binary", maxLength: 20 }), n: fc.integer() }),
);

const stateEdit: fc.Arbitrary<StateEdit> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ to: fc.constant("value" as const), value }) },
  { weight: 1, arbitrary: fc.record({ to: fc.constant("unset" as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      to: fc.constant("grow" as const),
      units: fc.integer({ min: 500, max: 8_000 }),
      // Letters of one and of two UTF-16 units: a splice may cut a pair.
      letter: fc.constantFrom("a", "é", "😀", "\ud83d"),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      to: fc.constant("splice" as const),
      at: fc.nat(8_000),
      remove: fc.nat(40),
      text: fc.string({ unit: fc.constantFrom("x", "😀", "😁", '"', "\\", "\n"), maxLength: 8 }),
    }),
  },
);

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ act: fc.constant("sql" as const), statement }) },
  {
    weight: 2,
    arbitrary: fc.record({
      act: fc.constant("transaction" as const),
      statements: fc.array(statement, { maxLength: 4 }),
      throws: fc.boolean(),
    }),
  },
  { weight: 5, arbitrary: fc.record({ act: fc.constant("setState" as const), state: stateEdit }) },
  { weight: 3, arbitrary: fc.record({ act: fc.constant("wait" as const), ms: wait }) },
  { weight: 1, arbitrary: fc.record({ act: fc.constant("sync" as const) }) },
);

const actions = fc.array(action, { minLength: 1, maxLength: 6 });

export const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 14,
    arbitrary: fc.record({
      on: fc.constant("input" as const),
      actions,
      fails: fc.nat(5).map((n) => n === 5),
    }),
  },
  { weight: 4, arbitrary: fc.record({ on: fc.constant("call" as const), actions }) },
  {
    weight: 8,
    arbitrary: fc.record({
      on: fc.constant("time" as const),
      ms: fc.integer({ min: 1, max: 120 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ on: fc.constant("snapshot" as const) }) },
  { weight: 3, arbitrary: fc.record({ on: fc.constant("hibernate" as const) }) },
  { weight: 2, arbitrary: fc.record({ on: fc.constant("move" as const) }) },
  { weight: 1, arbitrary: fc.record({ on: fc.constant("conflict" as const) }) },
  { weight: 2, arbitrary: fc.record({ on: fc.constant("restore" as const), nth: fc.nat(50) }) },
);

export const program = fc.array(event, { minLength: 5, maxLength: 50, size: "max" });
