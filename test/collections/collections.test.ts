/** The collections of hot paths: as maps and sets, and without references to removed items. */
import fc from "../kit/property.ts";
import { expect, test } from "vitest";
import { LinkedList, type Link } from "../../core/collections/LinkedList.ts";
import { NumberedTable } from "../../core/collections/NumberedTable.ts";

/** Adds, and takes out what was added so many adds ago. */
const steps = fc.array(fc.oneof(fc.constant("add" as const), fc.nat(300)), { maxLength: 600 });

test("a numbered table behaves like a map, and never reuses a number", () => {
  fc.assert(
    fc.property(steps, (script) => {
      const table = new NumberedTable<{ readonly n: number }>();
      const model = new Map<number, { readonly n: number }>();
      const given: number[] = [];
      for (const step of script) {
        if (step === "add") {
          const number = table.next();
          expect(number).toBeGreaterThan(given.at(-1) ?? 0);
          const value = { n: number };
          table.set(number, value);
          model.set(number, value);
          given.push(number);
        } else {
          const number = given.at(-1 - step) ?? step;
          expect(table.get(number)).toBe(model.get(number));
          expect(table.take(number)).toBe(model.get(number));
          model.delete(number);
          expect(table.take(number)).toBeUndefined();
        }
        expect(table.size).toBe(model.size);
      }
      expect(table.entries()).toEqual([...model]);
    }),
  );
});

test("a long-lived entry does not slow down others", () => {
  const table = new NumberedTable<{ readonly n: number }>();
  const put = (): number => {
    const number = table.next();
    table.set(number, { n: number });
    return number;
  };
  const stays = put();
  for (let i = 0; i < 10_000; i++) {
    const number = put();
    expect(number & 63).not.toBe(stays & 63);
    expect(table.take(number)).toEqual({ n: number });
  }
  // A thousand at once: the table grows, and what was in it is found.
  const many = Array.from({ length: 1_000 }, put);
  for (const number of [stays, ...many]) expect(table.get(number)).toEqual({ n: number });
  expect(table.size).toBe(1_001);
});

test("unknown numbers find nothing", () => {
  const table = new NumberedTable<object>();
  table.set(table.next(), {});
  for (const number of [0, -1, 65, NaN, Infinity, 0.5]) expect(table.get(number)).toBeUndefined();
});

test("a linked list behaves like a set, in the same order", () => {
  fc.assert(
    fc.property(steps, (script) => {
      const list = new LinkedList<number>();
      const model = new Set<number>();
      const links: Array<Link<number>> = [];
      for (const [n, step] of script.entries()) {
        if (step === "add") {
          links.push(list.add(n));
          model.add(n);
        } else if (step === 0) {
          const [first] = model;
          expect(list.shift()).toBe(first);
          model.delete(first!);
        } else {
          const link = links.at(-step);
          if (link?.value !== undefined) model.delete(link.value);
          link?.leave();
          link?.leave();
        }
        expect(list.first).toBe([...model][0]);
      }
      expect([...list.drain()]).toEqual([...model]);
    }),
  );
});

test("a removed link holds neither its value nor its neighbours", () => {
  const list = new LinkedList<object>();
  const links = [list.add({}), list.add({}), list.add({})];
  links[1]!.leave();
  expect({ ...links[1] }).toEqual({});
  list.shift();
  expect({ ...links[0] }).toEqual({});
  expect(list.first).toBe(links[2]!.value);
});
