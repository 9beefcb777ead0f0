/**
 * Compiles a fast check from a schema: whether a value from JSON is exactly what the schema
 * describes, with nothing to strip, default or transform. Decoding by the schema takes five times
 * as long as the rest of reading an event, so replay tries this check first
 * (`JournalEvent.decodeEvent`) and uses the schema only where it returns false.
 *
 * True only for a value that the schema accepts and returns unchanged. After false the schema
 * decides. An unknown kind of schema, or one with checks or a transformation, throws a `TypeError`
 * on compilation.
 */
import type * as Schema from "effect/Schema";
import type * as AST from "effect/SchemaAST";

type Check = (value: unknown) => boolean;

interface Field {
  readonly check: Check;
  readonly required: boolean;
}

/** Compiles the check. Call it once per schema. */
export function plainCheck<S extends Schema.Top>(
  schema: S,
): (value: unknown) => value is S["Type"] {
  return checkOf(schema.ast) as (value: unknown) => value is S["Type"];
}

function checkOf(ast: AST.AST): Check {
  if (ast.checks !== undefined || ast.encoding !== undefined)
    throw new TypeError("plainCheck takes schemas without checks and transformations");
  switch (ast._tag) {
    case "String":
      return (value) => typeof value === "string";
    case "Number":
      return (value) => typeof value === "number";
    case "Boolean":
      return (value) => typeof value === "boolean";
    case "Unknown":
      return () => true;
    case "Literal":
      return (value) => value === ast.literal;
    case "Union":
      return unionOf(ast);
    case "Arrays":
      return arrayOf(ast);
    case "Objects":
      return ast.indexSignatures.length > 0 ? recordOf(ast) : structOf(ast);
    default:
      throw new TypeError(`plainCheck does not know schemas of the kind ${ast._tag}`);
  }
}

function unionOf({ types }: AST.Union): Check {
  if (types.every((type) => type._tag === "Literal")) {
    const literals = new Set<unknown>(types.map((type) => type.literal));
    return (value) => literals.has(value);
  }
  const checks = types.map(checkOf);
  return (value) => checks.some((check) => check(value));
}

function arrayOf({ elements, rest }: AST.Arrays): Check {
  const [of, ...more] = rest.map(checkOf);
  if (more.length > 0) throw new TypeError("plainCheck takes lists and tuples of fixed length");
  if (of !== undefined && elements.length === 0)
    return (value) => Array.isArray(value) && value.every(of);
  if (of !== undefined) throw new TypeError("plainCheck takes lists and tuples of fixed length");
  const checks = elements.map(checkOf);
  return (value) =>
    Array.isArray(value) &&
    value.length === checks.length &&
    checks.every((check, i) => check(value[i]));
}

function structOf({ propertySignatures }: AST.Objects): Check {
  const fields = new Map<PropertyKey, Field>();
  let required = 0;
  for (const { name, type } of propertySignatures) {
    const field = { check: checkOf(type), required: type.context?.isOptional !== true };
    fields.set(name, field);
    if (field.required) required++;
  }
  return (value) => {
    if (!isObject(value)) return false;
    let missing = required;
    for (const name in value) {
      const field = fields.get(name);
      if (field === undefined || !field.check(value[name])) return false;
      if (field.required) missing--;
    }
    return missing === 0;
  };
}

function recordOf({ propertySignatures, indexSignatures }: AST.Objects): Check {
  const [signature, ...more] = indexSignatures;
  if (signature === undefined || more.length > 0 || propertySignatures.length > 0)
    throw new TypeError("plainCheck takes records with one kind of key");
  if (signature.parameter._tag !== "String")
    throw new TypeError("plainCheck takes records whose keys are strings");
  const check = checkOf(signature.type);
  return (value) => {
    if (!isObject(value)) return false;
    for (const name in value) if (!check(value[name])) return false;
    return true;
  };
}

export const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
