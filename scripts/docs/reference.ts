/** Reference pages that follow from the schemas: the epilogue's steps, the manifest; and the topics of schedule fields. */
import { type EpilogueStep, jsonSchemaOf, printStep } from "@tilewright/core";

/** As much of a JSON Schema as these have. */
interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema | boolean;
  readonly required?: readonly string[];
}

/** Angle brackets and bars mean something to Markdown outside of code. */
export const escaped = (text: string): string => text.replace(/[<>|{}]/g, (c) => `&#${c.charCodeAt(0)};`);

const variantsOf = ({ anyOf, oneOf }: Schema): readonly Schema[] => anyOf ?? oneOf ?? [];

/** The type of a value in a few words: `one of row, col`. */
function typeOf(schema: Schema): string {
  const variants = variantsOf(schema);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined) return schema.enum.map(String).join(", ");
  if (variants.length > 0) return [...new Set(variants.map(typeOf))].join(" or ");
  if (schema.items !== undefined) return `list of ${typeOf(schema.items)}`;
  return typeof schema.type === "string" ? schema.type : (schema.type ?? ["any"]).join(" or ");
}

/** The steps of an epilogue, by the schema of a problem. */
export function stepSchemas(): readonly {
  readonly kind: string;
  readonly schema: Schema;
  readonly text: string;
}[] {
  const problem = jsonSchemaOf("problem") as Schema;
  const steps = variantsOf(problem.properties?.epilogue?.items ?? {});
  const values: Readonly<Record<string, object>> = {
    operand: { dtype: "dtype", layout: "layout", ld: "ld", align: "align" },
    runs: { outer: true, most: "most", total: "total" },
  };
  return steps.map((schema) => {
    const kind = String(schema.properties?.kind?.const);
    const names = Object.keys(schema.properties ?? {});
    // Its text form with the names of the arguments in their places.
    const step = Object.fromEntries(names.map((name) => [name, values[name] ?? name]));
    return { kind, schema, text: printStep({ ...step, kind } as unknown as EpilogueStep) };
  });
}

export function epiloguePage(): string {
  const sections = stepSchemas().map(({ kind, schema, text }) => {
    const rows = Object.entries(schema.properties ?? {})
      .filter(([name]) => name !== "kind")
      .map(([name, of]) => {
        const type = name === "operand" ? "a matrix: dtype, layout (row, col), ld, align" : typeOf(of);
        return `| \`${name}\` | ${escaped(type)} | ${escaped(of.description ?? "")} |`;
      });
    const about = schema.description === undefined ? [] : [`${escaped(schema.description)}.`, ""];
    return [
      `## ${kind}`,
      "",
      ...about,
      `\`${text}\``,
      "",
      "| argument | values | |",
      "|---|---|---|",
      ...rows,
      "",
    ];
  });
  return [
    "# Epilogue",
    "",
    "What happens to alpha * A.B + beta * C before it is stored: a chain of steps, in their order, on the accumulator's values. As text (`--epilogue`, the problem's line) steps are joined by `|`, and `none` is the empty",
    "chain; `relu` alone is short for `activation(relu)`. As JSON (`epilogue` of a request) each is an object with `kind` and its arguments.",
    "",
    "```sh",
    'npx tilewright run --arch sm_80 -m 64 -n 128 -k 64 --dtype f16 --epilogue "bias(n,f16)|gelu" --device emulator',
    "```",
    "",
    ...sections.flat(),
  ].join("\n");
}

/** Every property of a schema by its path: `kernels[].launch.grid`. */
function pathsOf(
  schema: Schema,
  path = "",
): readonly (readonly [path: string, schema: Schema, required: boolean])[] {
  const inner: (readonly [string, Schema, boolean])[] = [];
  for (const [name, of] of Object.entries(schema.properties ?? {})) {
    const at = path === "" ? name : `${path}.${name}`;
    inner.push([at, of, schema.required?.includes(name) ?? false], ...pathsOf(of, at));
  }
  if (schema.items !== undefined) inner.push(...pathsOf(schema.items, `${path}[]`));
  for (const variant of variantsOf(schema)) inner.push(...pathsOf(variant, path));
  if (typeof schema.additionalProperties === "object")
    inner.push(...pathsOf(schema.additionalProperties, `${path}.*`));
  return inner;
}

export function manifestPage(): string {
  const rows = new Map<
    string,
    { readonly types: Set<string>; readonly about: Set<string>; always: boolean }
  >();
  for (const [path, schema, required] of pathsOf(jsonSchemaOf("manifest") as Schema)) {
    const row = rows.get(path) ?? { types: new Set(), about: new Set(), always: true };
    rows.set(path, row);
    row.types.add(typeOf(schema));
    if (schema.description !== undefined) row.about.add(schema.description);
    row.always &&= required;
  }
  return [
    "# Manifest",
    "",
    "`NAME.gemm.json` beside a kernel's PTX says what it computes and how to launch it: grid, block and shared memory as expressions of sizes, every parameter with its place, tensor maps as recipes, constraints to be checked before.",
    "`tilewright schema manifest` prints the JSON Schema that these rows are from; `readManifest` of `@tilewright/core` checks one.",
    "",
    "| field | type | meaning |",
    "|---|---|---|",
    ...[...rows].map(
      ([path, { types, about, always }]) =>
        `| \`${path}\`${always ? "" : " (optional)"} | ${escaped([...types].join(" or "))} | ${escaped([...about].join("; "))} |`,
    ),
    "",
  ].join("\n");
}

/** Schedule fields by what they are about. Each field of each backend stands in one of them. */
export const topics: readonly (readonly [topic: string, fields: readonly string[]])[] = [
  [
    "Tiles and threads",
    [
      "tile",
      "chainTile",
      "chainOperand",
      "warp",
      "thread",
      "lanes",
      "strip",
      "warpgroups",
      "rowGroups",
      "correctionWarps",
      "swapAB",
      "ctaGroup",
      "frag",
      "interleave",
      "guards",
    ],
  ],
  [
    "Pipeline and copies",
    [
      "stages",
      "copy",
      "tail",
      "refill",
      "peel",
      "drain",
      "copyBytes",
      "copyElements",
      "copySpread",
      "vectorsPerThread",
      "l1",
      "registerPrefetch",
      "transpose",
      "registerStoreStep",
      "earlyProducerStart",
      "conditionalRescale",
      "laneSums",
      "splitMasked",
      "spreadMaps",
      "delayedRelease",
      "pipelineProducts",
      "loadVectorsAhead",
      "reuseStages",
    ],
  ],
  ["Shared memory", ["swizzle", "sharedLayout", "ldmatrix", "stagedOperands"]],
  [
    "Roles and registers",
    ["regs", "pingPong", "firstOperand", "operandOrder", "walk", "walkLines", "walkAlong", "firstLevelK"],
  ],
  ["Clusters", ["cluster", "nonPortableCluster", "multicast"]],
  ["Tile scheduler", ["raster", "sched", "schedulerStages", "batchGroup", "pdl"]],
  ["L2 and tensor maps", ["cache", "l2Promotion", "l2Prefetch", "l2PrefetchBytes"]],
  ["Split-K and stream-K", ["split", "reduction", "streamk"]],
  ["Tensor memory", ["accumulators", "overlappedColumns", "loadColumns", "earlyAccumulatorRelease"]],
  ["Epilogue", ["epi", "epilogueLoad", "storeElements", "storeStages"]],
];
