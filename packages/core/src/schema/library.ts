/** Kernel libraries as JSON: what one shall hold, and the index of one that was made. */
import { z } from "zod";
import type { Checked } from "../diagnostics.ts";
import { err, ok } from "../ids.ts";
import { attentionRequestSchema } from "./attention.ts";
import { diagnosticsOfIssues } from "./issues.ts";
import { constraintSchema } from "./manifest.ts";
import { problemRequestSchema } from "./problem.ts";

/** Words that mean something in C, Python, Rust or JavaScript, or that the launchers define themselves. */
const reserved: ReadonlySet<string> = new Set(
  (
    "and as assert async auto await bool break case catch char class const continue crate def default del delete do double dyn elif else " +
    "enum except export extends extern false finally float fn for from function global goto if impl import in inline int is lambda let " +
    "library long loop match mod move mut new none nonlocal not null of open or pass pub raise ref register restrict return self short " +
    "signed sizeof static struct super switch this throw trait true try type typedef typeof union unsafe unsigned use var void volatile " +
    "where while with yield abstract become box final macro override priv protected private public interface package virtual " +
    "args close driver error kernel last_error plan stream value values"
  ).split(" "),
);

/** A name that every launcher can define: `defaults` and `workspace` end those of helpers. */
const identifier = z
  .string()
  .regex(/^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$/, {
    error: (issue) =>
      `${JSON.stringify(issue.input)} is no name: lower-case letters, digits and single underscores`,
  })
  .refine((name) => !reserved.has(name) && !/(?:^|_)(?:defaults|workspace)$/.test(name), {
    error: (issue) => `'${String(issue.input)}' means something else in one of the launchers' languages`,
  });

const oneOrMore = <T extends z.ZodType>(item: T) => z.union([item, z.array(item).min(1)]);
const { m, n, k, symbolic, ...fixedFields } = problemRequestSchema.shape;
const { queries, keys, batch: sequences } = attentionRequestSchema.shape;

/** Sizes of one or several kernels: where a field is a list, every combination with the others. */
const sizesSchema = z
  .strictObject({
    m: oneOrMore(m).optional(),
    n: oneOrMore(n).optional(),
    k: oneOrMore(k).optional(),
    queries: oneOrMore(queries).optional(),
    keys: oneOrMore(keys).optional(),
    batch: oneOrMore(sequences).optional(),
    symbolic: symbolic.describe(
      "sizes given at launch: one kernel, tuned for m, n and k, serves all that no other kernel fits",
    ),
    schedule: z.string().optional().describe("for these sizes; the backend's best one if left out"),
  })
  .describe(
    "sizes of kernels: m, n, k of a product, queries, keys, batch of attention; lists stand for every combination",
  );

const archs = z.array(z.string()).min(1).describe("architectures: names that `tilewright targets` lists");

const operationSchema = z
  .strictObject({
    name: identifier.describe("of its function in the launchers"),
    problem: z
      .discriminatedUnion("op", [
        z.strictObject({ ...fixedFields, symbolic, m: m.optional(), n: n.optional(), k: k.optional() }),
        attentionRequestSchema.partial({ queries: true, keys: true, headDim: true }),
      ])
      .describe("dtypes, layouts, factors, epilogue, batch; the sizes too where there is one"),
    sizes: z.array(sizesSchema).min(1).optional(),
    archs: archs.optional(),
    backend: z.string().optional(),
    schedule: z.string().optional().describe("for all kernels of the operation"),
    gradients: z
      .boolean()
      .optional()
      .describe(
        "also NAME_da and NAME_db, the products that the gradients of A and B are, and NAME_product where the epilogue's gradient needs it: for autograd",
      ),
  })
  .describe("one function of the library, over kernels for several sizes and architectures");

/** What a library shall hold: `compile --library DIR --kernels FILE`. */
export const librarySchema = z
  .strictObject({
    $schema: z.string().optional(),
    name: identifier.describe("prefix of all that the launchers define"),
    version: z
      .string()
      .regex(/^\d+(?:\.\d+)*$/)
      .optional()
      .describe("of the Python wheel; 0.1.0"),
    archs: archs.optional().describe("for operations that name none; --arch names others"),
    operations: z.array(operationSchema).min(1),
  })
  .describe("a kernel library: operations x sizes x architectures");

export type LibraryRequest = z.output<typeof librarySchema>;
export type LibraryOperationRequest = z.output<typeof operationSchema>;

/** Value of `$schema` of an index. */
export const libraryIndexSchemaId = "https://tilewright.dev/schema/library-index-1.json";

const count = z.int().nonnegative();
const hash = z.string().regex(/^[0-9a-f]{64}$/);

/** `portable`: this compute capability and later ones; `family`: of the same major version; `arch`: exactly this one. */
const deviceSchema = z.object({
  rule: z.enum(["portable", "family", "arch"]),
  major: count,
  minor: count,
});

/** `index.json` of a library. Unknown fields are ignored. */
export const libraryIndexSchema = z
  .object({
    $schema: z.string(),
    schemaVersion: z.literal(1),
    name: identifier,
    generator: z.object({ name: z.string(), version: z.string() }),
    artefacts: z.array(
      z.object({
        id: z.string().describe("that of its manifest"),
        manifest: z.string().describe("path, relative to this file"),
        sha256: hash.describe("of the manifest"),
        arch: z.string(),
        device: deviceSchema.describe("which GPUs run it"),
        constraints: z.array(constraintSchema).describe("those of the manifest, for dispatch"),
      }),
    ),
    operations: z.array(
      z.object({
        name: identifier,
        /** Numbers of artefacts: the first whose device and constraints fit is the one to launch. */
        dispatch: z.array(count).describe("artefacts, best first: the first that fits GPU and arguments"),
      }),
    ),
  })
  .describe("index of a kernel library: which kernel serves which arguments on which GPU");

export type LibraryIndex = z.output<typeof libraryIndexSchema>;
export type LibraryDevice = z.output<typeof deviceSchema>;

/** An index from parsed JSON. Errors: TW1307 for everything that does not fit, all at once. */
export function readLibraryIndex(value: unknown): Checked<LibraryIndex> {
  const parsed = libraryIndexSchema.safeParse(value);
  return parsed.success
    ? ok(parsed.data)
    : err(diagnosticsOfIssues(parsed.error.issues, value, "TW1307", "library"));
}

/** Canonical text of an index. */
export const printLibraryIndex = (index: LibraryIndex): string =>
  `${JSON.stringify(libraryIndexSchema.parse(index), null, 2)}\n`;
