/** What to compile, as JSON; and every schema as JSON Schema. */
import { z } from "zod";
import { attentionRequestSchema } from "./attention.ts";
import { libraryIndexSchema, libraryIndexSchemaId, librarySchema } from "./library.ts";
import { manifestSchema, manifestSchemaId } from "./manifest.ts";
import { problemRequestSchema, problemSchema } from "./problem.ts";
import { tunedSchema } from "./tuned.ts";

/** One kernel to make: the JSON form of `compile`'s flags. */
export const requestSchema = z
  .strictObject({
    arch: z.string().describe("target: a name that `tilewright targets` lists"),
    problem: z.union([problemRequestSchema, attentionRequestSchema]),
    schedule: z
      .union([z.string(), z.record(z.string(), z.union([z.number(), z.string(), z.array(z.number())]))])
      .optional()
      .describe("text (tile=128x128x8 stages=2) or fields; the backend's best one if left out"),
    backend: z
      .string()
      .optional()
      .describe("id of the backend; the best that accepts the problem if left out"),
    deterministic: z
      .boolean()
      .optional()
      .describe("the same bits in every run: parts of tiles are added in their order"),
  })
  .describe("one kernel to compile");

export type CompileRequest = z.input<typeof requestSchema>;

const schemas = {
  request: { schema: requestSchema, id: "https://tilewright.dev/schema/request-1.json" },
  problem: { schema: problemSchema, id: "https://tilewright.dev/schema/problem-1.json" },
  manifest: { schema: manifestSchema, id: manifestSchemaId },
  library: { schema: librarySchema, id: "https://tilewright.dev/schema/library-1.json" },
  tuned: { schema: tunedSchema, id: "https://tilewright.dev/schema/tuned-1.json" },
  "library-index": { schema: libraryIndexSchema, id: libraryIndexSchemaId },
} as const;

export type SchemaName = keyof typeof schemas;
export const schemaNames = Object.keys(schemas) as readonly SchemaName[];

/** A schema as JSON Schema 2020-12: what is accepted as input. */
export function jsonSchemaOf(name: SchemaName): Readonly<Record<string, unknown>> {
  const { schema, id } = schemas[name];
  const { $schema, ...rest } = z.toJSONSchema(schema, { target: "draft-2020-12", io: "input" });
  return { $schema, $id: id, title: `Tilewright ${name}`, ...rest };
}
