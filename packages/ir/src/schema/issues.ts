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
        return [make(found === "nothing" ? "it is missing" : `${found} fits none of the forms allowed here`)];
      default:
        return [make(issue.message)];
    }
  });
}
