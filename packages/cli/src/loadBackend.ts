/** Backends from outside of this workspace: a module whose default export is a `Backend`. */
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { type Checked, err, ok } from "@tilewright/core";
import { type Backend, type Compiler, createCompiler } from "@tilewright/ir";
import { codes, failWith, problemWith } from "./codes.ts";
import { compilerOf } from "./compiler.ts";
import type { Context } from "./context.ts";
import { version } from "./version.ts";

/** A file (`./my-backend.js`, `/x/y.mjs`) or a package (`@acme/backend`); ids of backends have neither slash nor ending. */
export const namesModule = (text: string): boolean => /[/\\]|\.[cm]?[jt]s$/.test(text);

type Fields = Readonly<Record<string, unknown>>;
const isObject = (value: unknown): value is Fields => typeof value === "object" && value !== null;

/** What is wrong with one field; null when nothing is. */
type Rule = readonly [field: string, wants: string, holds: (value: unknown) => boolean];

const method = (name: string): Rule => [name, "a function", (value) => typeof value === "function"];

/** The members of `Backend` that everything else relies on. */
const rules: readonly Rule[] = [
  [
    "id",
    "a name of lower-case letters, digits and dashes",
    (v) => typeof v === "string" && /^[a-z][a-z0-9-]*$/.test(v),
  ],
  ["summary", "a text", (v) => typeof v === "string"],
  [
    "schedule",
    "a model { fields: [...] }, each field with name, summary, syntax, default, off, parse and print",
    (v) => isObject(v) && Array.isArray(v.fields) && v.fields.every(isField),
  ],
  [
    "showcase",
    "{ arch, dtype }",
    (v) => isObject(v) && typeof v.arch === "string" && typeof v.dtype === "string",
  ],
  method("supports"),
  method("accepts"),
  method("schedules"),
  method("check"),
  method("tile"),
  [
    "passes",
    "an array of passes { name, summary, from, to, run }",
    (v) =>
      Array.isArray(v) &&
      v.every((pass) => isObject(pass) && typeof pass.name === "string" && typeof pass.run === "function"),
  ],
  method("lower"),
];

const isField = (value: unknown): boolean =>
  isObject(value) &&
  typeof value.name === "string" &&
  typeof value.summary === "string" &&
  typeof value.syntax === "string" &&
  "default" in value &&
  "off" in value &&
  typeof value.parse === "function" &&
  typeof value.print === "function";

const hint = "docs/add-a-backend.md has the interface, examples/backend-fixed a backend of one file";

const shown = (value: unknown): string =>
  value === undefined
    ? "missing"
    : Array.isArray(value)
      ? "an array"
      : typeof value === "object"
        ? "an object"
        : `${typeof value} ${String(value)}`;

/** Every reason why a value is no backend, `taken` being the ids that there are. */
function checkBackend(value: unknown, at: string, taken: readonly string[]): Checked<Backend> {
  const fail = (message: string) => problemWith(codes.badBackend, at, message, { hint });
  if (!isObject(value))
    return err([fail(`${at} has no backend as its default export: that is ${shown(value)}`)]);
  const found = rules
    .filter(([field, , holds]) => !holds(value[field]))
    .map(([field, wants]) => fail(`the backend's ${field} is to be ${wants}, and is ${shown(value[field])}`));
  if (typeof value.id === "string" && taken.includes(value.id))
    found.push(fail(`there is a backend '${value.id}' already; give this one another id`));
  return found.length > 0 ? err(found) : ok(value as unknown as Backend);
}

/** Where a module lies: a file from the working directory, or a package as a project there would find it. */
function locate(cwd: string, name: string): string {
  const file = /^[./\\]|^[A-Za-z]:[/\\]/.test(name) || /\.[cm]?[jt]s$/.test(name);
  return file ? resolve(cwd, name) : createRequire(join(cwd, "package.json")).resolve(name);
}

/** The backend that a module exports. Errors (TW7081), all at once: it does not load, it exports none, what its backend lacks. */
export async function loadBackend(context: Context, name: string): Promise<Checked<Backend>> {
  let loaded: unknown;
  try {
    loaded = await import(pathToFileURL(locate(context.cwd, name)).href);
  } catch (error) {
    const why = error instanceof Error ? (error.message.split(/\n| imported from /)[0] ?? "") : String(error);
    return failWith(codes.badBackend, name, `${name} does not load: ${why}`, {
      hint: "a path is relative to the working directory; a package must be installed there",
    });
  }
  const exported = isObject(loaded) ? loaded.default : undefined;
  return checkBackend(
    exported,
    name,
    compilerOf(context).backends.map(({ id }) => id),
  );
}

/** The compiler of the context with one more backend, which comes first. */
export const compilerWith = (context: Context, backend: Backend): Compiler =>
  createCompiler({ backends: [backend, ...compilerOf(context).backends], version });
