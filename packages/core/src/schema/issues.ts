/** zod's issues as diagnostics. */
import type { z } from "zod";
import type { Diagnostic } from "../diagnostics.ts";
import { didYouMean } from "../nearest.ts";

const show = (value: unknown): string => {
  if (value === undefined) return "nothing";
  if (typeof value === "number") return String(value);
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
};

const valueAt = (input: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce<unknown>(
    (value, key) => (typeof value === "object" && value !== null ? Reflect.get(value, key) : undefined),
    input,
  );

const printPath = (path: readonly PropertyKey[]): string =>
  path.reduce<string>(
    (text, key) =>
      typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`,
    "",
  );

type Union = Extract<z.core.$ZodIssue, { readonly code: "invalid_union" }>;

/** A key that a form of a union must have, and that the value has not. */
const missingKey = (issue: z.core.$ZodIssue, value: unknown): string | null =>
  issue.path.length === 1 && valueAt(value, issue.path) === undefined ? String(issue.path[0]) : null;

/** What is wrong with a value in the one form of a union that it can be meant as, by its type and keys; null where that is open. */
function ofMeantForm(
  union: Union,
  input: unknown,
  code: Diagnostic["code"],
  root: string,
  keys: (path: readonly PropertyKey[]) => readonly string[],
): readonly Diagnostic[] | null {
  const value = valueAt(input, union.path);
  const meant = union.errors.filter((issues) =>
    issues.every(
      (issue) =>
        missingKey(issue, value) === null &&
        (issue.path.length > 0 || !["invalid_type", "invalid_value"].includes(issue.code)),
    ),
  );
  const [form] = meant;
  if (form === undefined || meant.length > 1) return null;
  const inPlace = form.map((issue): z.core.$ZodIssue => ({ ...issue, path: [...union.path, ...issue.path] }));
  return diagnosticsOfIssues(inPlace, input, code, root, keys);
}

/** The forms of a union, as far as what was found tells: `none, zeros, {"normal": ...}`. */
function formsOf(union: Union): string | undefined {
  const forms = union.errors.flatMap((issues): readonly string[] => {
    const [first] = issues;
    if (first?.code === "invalid_value") return first.values.map(String);
    if (first?.code === "invalid_type" && first.path.length === 0)
      return first.expected === "object"
        ? []
        : [/^[aeiou]/.test(first.expected) ? `an ${first.expected}` : `a ${first.expected}`];
    const [key] = first?.path ?? [];
    return key === undefined ? [] : [`{"${String(key)}": ...}`];
  });
  const objects = union.errors.some(
    ([first]) => first?.code === "invalid_type" && first.expected === "object",
  );
  const all = [...new Set(forms), ...(objects ? ["an object"] : [])];
  return all.length === 0 ? undefined : `one of ${all.join(", ")}`;
}

/**
 * One diagnostic (kind `invalid`) per zod issue, `at` its path below `root`, with what was found and what would fit.
 * `input` is what was parsed; `keys` gives the known keys of the object at a path, for misspelt ones.
 */
export function diagnosticsOfIssues(
  issues: readonly z.core.$ZodIssue[],
  input: unknown,
  code: Diagnostic["code"],
  root: string,
  keys: (path: readonly PropertyKey[]) => readonly string[] = () => [],
): readonly Diagnostic[] {
  return issues.flatMap((issue): readonly Diagnostic[] => {
    const path = printPath(issue.path);
    const at = path === "" ? root : path;
    const found = show(valueAt(input, issue.path));
    const make = (message: string, hint?: string, where = at): Diagnostic =>
      hint === undefined
        ? { code, kind: "invalid", at: where, message }
        : { code, kind: "invalid", at: where, message, hint };
    switch (issue.code) {
      case "invalid_type":
        return [make(`expected ${issue.expected}, found ${found}`)];
      case "too_small":
      case "too_big": {
        if (issue.origin === "array") {
          const value = valueAt(input, issue.path);
          const bound = issue.code === "too_small" ? `at least ${issue.minimum}` : `at most ${issue.maximum}`;
          const count = Array.isArray(value) ? value.length : 0;
          return [make(`${count === 0 ? "the list is empty" : `the list has ${count} entries`}`, `${bound}`)];
        }
        if (issue.origin !== "number" && issue.origin !== "int") return [make(issue.message)];
        const [bound, side] =
          issue.code === "too_small" ? [issue.minimum, "small"] : [issue.maximum, "large"];
        const least =
          issue.inclusive === true ? "" : issue.code === "too_small" ? "more than " : "less than ";
        return [
          make(
            `${found} is too ${side}`,
            `${least}${bound}${issue.inclusive === true ? ` at ${issue.code === "too_small" ? "least" : "most"}` : ""}`,
          ),
        ];
      }
      case "invalid_value": {
        const values = issue.values.map(String);
        return [
          make(
            `${found} is not one of ${values.join(", ")}`,
            didYouMean(found.replaceAll('"', ""), values, `use ${values[0]}`),
          ),
        ];
      }
      case "unrecognized_keys":
        return issue.keys.map((key) => {
          const known = keys(issue.path);
          return make(
            `there is no field '${key}'`,
            didYouMean(key, known, known.length > 0 ? `fields: ${known.join(", ")}` : "leave it out"),
            path === "" ? key : `${path}.${key}`,
          );
        });
      case "invalid_union":
        if (found === "nothing") return [make("it is missing")];
        // No form has such a discriminator; zod's message says which ones there are.
        if (issue.errors.length === 0) {
          const values = [...issue.message.matchAll(/'(\w+)'/g)].flatMap(([, value = ""]) =>
            value === "undefined" ? [] : [value],
          );
          return [
            make(
              `${found} is not one of ${values.join(", ")}`,
              didYouMean(found.replaceAll('"', ""), values, `use ${values[0]}`),
            ),
          ];
        }
        return (
          ofMeantForm(issue, input, code, root, keys) ?? [
            make(`${found} fits none of the forms allowed here`, formsOf(issue)),
          ]
        );
      default:
        return [make(issue.message)];
    }
  });
}
