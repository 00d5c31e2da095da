/** `tilewright schema`: JSON Schemas of everything that goes in and out. */
import { didYouMean, jsonSchemaOf, type SchemaName, scheduleSchema, schemaNames } from "@tilewright/core";
import type { Backend } from "@tilewright/ir";
import { z } from "zod";
import { backends } from "../backends.ts";
import { benchRecordSchema } from "../bench/record.ts";
import { shapesSchema } from "../bench/shapes.ts";
import { codes, problemWith } from "../codes.ts";
import { defineCommand } from "../kit/command.ts";
import { configSchema } from "../kit/config.ts";
import { exitCodes } from "../kit/exit.ts";
import { optionalArgument } from "../kit/flags.ts";
import { ladderResultSchema } from "../ladder/result.ts";
import { launchSchema } from "../launch/schema.ts";
import { toJson } from "../output/json.ts";
import { renderPairs } from "../output/table.ts";
import { runResultSchema } from "../run/result.ts";

interface SchemaRow {
  readonly summary: string;
  readonly make: () => unknown;
}

const draft = { target: "draft-2020-12" } as const;
const ofZod = (schema: z.ZodType, title: string, io: "input" | "output") => {
  const { $schema, ...rest } = z.toJSONSchema(schema, { ...draft, io });
  return {
    $schema,
    $id: `https://tilewright.dev/schema/${title}-1.json`,
    title: `Tilewright ${title}`,
    ...rest,
  };
};

/** The schedules of one backend. */
const scheduleOf = (backend: Backend) =>
  ofZod(
    scheduleSchema(backend.schedule).describe(`schedule of the ${backend.id} backend`),
    `schedule-${backend.id}`,
    "input",
  );

const summaries: Record<SchemaName, string> = {
  request: "what compile and run read with --request",
  problem: "a complete problem, as manifests hold it",
  manifest: "how to launch a compiled kernel: *.gemm.json",
  library: "what compile --library reads with --kernels",
  tuned: "one line of a schedule store: tuned.jsonl",
  "library-index": "index.json of a kernel library: which kernel for which arguments",
};

const rows: Readonly<Record<string, SchemaRow>> = {
  ...Object.fromEntries(
    schemaNames.map((name) => [name, { summary: summaries[name], make: () => jsonSchemaOf(name) }]),
  ),
  schedule: {
    summary: "the fields of a schedule, by backend",
    make: () => ({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      oneOf: backends.map(scheduleOf),
    }),
  },
  launch: { summary: "how emulate launches a kernel", make: () => ofZod(launchSchema, "launch", "input") },
  run: { summary: "what run --json prints", make: () => ofZod(runResultSchema, "run", "output") },
  ladder: { summary: "what ladder --json prints", make: () => ofZod(ladderResultSchema, "ladder", "output") },
  config: {
    summary: "the user's defaults: $XDG_CONFIG_HOME/tilewright/config.json",
    make: () => ofZod(configSchema, "config", "input"),
  },
  shapes: {
    summary: "sizes that bench reads with --shapes",
    make: () => ofZod(shapesSchema, "shapes", "input"),
  },
  bench: { summary: "one line that bench writes", make: () => ofZod(benchRecordSchema, "bench", "output") },
};

export const schema = defineCommand({
  name: "schema",
  args: z.strictObject({ name: optionalArgument("which schema; the list of them if left out", "NAME") }),
  positionals: ["name"],
  run(session, { name }) {
    const row = name === undefined ? undefined : Object.hasOwn(rows, name) ? rows[name] : undefined;
    if (row !== undefined) {
      const made = row.make();
      session.result(made, () => toJson(made), "verbatim");
      return exitCodes.ok;
    }
    const list = Object.entries(rows).map(([key, { summary }]) => [key, summary] as const);
    if (name !== undefined) {
      const hint = didYouMean(name, Object.keys(rows), `schemas: ${Object.keys(rows).join(", ")}`);
      return session.fail([problemWith(codes.badValue, "NAME", `there is no schema '${name}'`, { hint })]);
    }
    session.result(Object.fromEntries(list), () => renderPairs(list));
    return exitCodes.ok;
  },
});
