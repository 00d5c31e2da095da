/** The rows of what kernels beside the main one do with matrices, and with results in the workspace. */
import { dtypeNames } from "@tilewright/core";
import type { CopyKind } from "../types.ts";
import { type Clause, integerClause, wordClause } from "./clause.ts";
import { tile } from "./fields.ts";
import { mixedWord } from "./launchExpressions.ts";
import { line, type Of, type StatementSyntax } from "./syntax.ts";

const count = (keyword: string, min = 1): Clause<number> => integerClause(keyword, min, undefined);
const step = count("step", 0);

const results: Clause<Of<"result.load">["count"]> = {
  keyword: "count",
  syntax: "N|m|n",
  default: undefined,
  print: String,
  parse: (c) =>
    c.peek().kind === "number" ? c.integer("the results", 1) : c.oneOf(["m", "n"] as const, "size"),
};

const vector: Clause<number> = {
  ...count("vector"),
  syntax: "1|2|4",
  parse: (c) => Number(mixedWord(c, ["1", "2", "4"], "number of elements")),
};

const lines = {
  ...{ first: count("first", 0), ctas: count("ctas"), lines: count("lines") },
  ...{ run: count("run"), pitch: count("pitch"), vector },
};

export const copySyntax: { readonly [K in CopyKind]: StatementSyntax<Of<K>> } = {
  transpose: line("transpose", "{buffer}", { buffer: tile }, lines),
  "result.load": line("result.load", "", {}, { step, count: results }),
  "result.clear": line("result.clear", "", {}, { step }),
  "result.store": line("result.store", "", {}, { step, dtype: wordClause("dtype", dtypeNames, undefined) }),
};
