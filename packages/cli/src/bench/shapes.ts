/** The problem sizes to measure: a file of named groups, or a list on the command line. */
import { type Checked, diagnosticsOfIssues, err, ok } from "@tilewright/core";
import { z } from "zod";
import { codes, failWith, problemWith } from "../codes.ts";
import type { Context } from "../context.ts";
import { readJson } from "../files/json.ts";

const extent = z
  .int()
  .positive()
  .max(2 ** 31 - 1);
const shape = z.tuple([extent, extent, extent]).describe("[m, n, k]: A is m x k, B is k x n");

export const shapesSchema = z
  .object({ $schema: z.string().optional(), about: z.string().optional().describe("what the sizes are for") })
  .catchall(z.array(shape).min(1).describe("a group of sizes, under any name"))
  .describe("problem sizes for tilewright bench --shapes");

export interface Shape {
  /** Name of the group in the file; `given` for sizes of the command line. */
  readonly group: string;
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

const inline = /^\d+x\d+x\d+(,\d+x\d+x\d+)*$/;
/** No file is called so. */
const almostInline = /^[\dx,]+$/;
const notGroups: ReadonlySet<string> = new Set(["$schema", "about"]);

/** `4096x4096x4096,512x512x32768`, or a file. `groups`: only these of the file; null for all. Errors: TW7003, TW7010, TW7012, all at once. */
export function readShapes(
  context: Context,
  source: string,
  groups: readonly string[] | null,
): Checked<readonly Shape[]> {
  if (inline.test(source)) return readList(source);
  if (almostInline.test(source))
    return failWith(codes.badValue, "--shapes", `${source} is neither a file nor a list of sizes`, {
      hint: "sizes are MxNxK,MxNxK",
    });
  const json = readJson(context, source);
  if (!json.ok) return json;
  const parsed = shapesSchema.safeParse(json.value);
  if (!parsed.success)
    return err(diagnosticsOfIssues(parsed.error.issues, json.value, codes.badJson.code, source));
  const named = Object.entries(parsed.data).filter(([name]) => !notGroups.has(name)) as [
    string,
    [number, number, number][],
  ][];
  if (named.length === 0)
    return failWith(codes.badJson, source, `${source} holds no group of sizes`, { hint: schemaHint });
  const known = named.map(([name]) => name);
  const unknown = (groups ?? []).filter((name) => !known.includes(name));
  if (unknown.length > 0) {
    const message = `${source} has no group ${unknown.join(", ")}`;
    return failWith(codes.badValue, "--groups", message, { hint: `it has ${known.join(", ")}` });
  }
  return ok(
    named
      .filter(([name]) => groups === null || groups.includes(name))
      .flatMap(([group, sizes]) => sizes.map(([m, n, k]) => ({ group, m, n, k }))),
  );
}

const schemaHint = "tilewright schema shapes";

function readList(source: string): Checked<readonly Shape[]> {
  const shapes = source.split(",").map((text) => {
    const [m = 0, n = 0, k = 0] = text.split("x").map(Number);
    return { group: "given", m, n, k };
  });
  const wrong = shapes.filter(({ m, n, k }) => !shape.safeParse([m, n, k]).success);
  return wrong.length === 0
    ? ok(shapes)
    : err(
        wrong.map(({ m, n, k }) =>
          problemWith(codes.badValue, "--shapes", `${m}x${n}x${k} has a size that is none`, {
            hint: "sizes are integers from 1 to 2147483647",
          }),
        ),
      );
}

export const shapeText = ({ m, n, k }: Pick<Shape, "m" | "n" | "k">): string => `${m}x${n}x${k}`;
