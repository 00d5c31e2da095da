/** Gradients of K and V whose threads hold sums of two products: what the compiler takes, through ptxas. */
import { spawnSync } from "node:child_process";
import { devNull } from "node:os";
import { findTarget } from "@tilewright/core";
import { expect, test } from "vitest";
import { compiler } from "../src/compiler.ts";
import { must, textOf } from "./attentionPrograms.ts";

const hasPtxas = spawnSync("ptxas", ["--version"]).status === 0;
const kv = { queries: 4096, keys: 4096, heads: 16, headDim: 128, dtype: "bf16", backward: "kv" } as const;

test
  .skipIf(!hasPtxas)
  .each([
    { alibi: true },
    { alibi: true, causal: true },
    { alibi: true, causal: true, softCap: 10 },
    { softCap: 10, causal: true },
  ])("no spills of gradients of K and V on wgmma: %j", (fields) => {
  const { ptx: input } = must(
    compiler.compile({
      ...{ target: must(findTarget("sm_90a")), backend: "wgmma", verify: "none" },
      from: textOf({ ...kv, ...fields }),
    }),
  );
  const args = ["-v", "-arch=sm_90a", "-", "-o", devNull];
  const { stderr } = spawnSync("ptxas", args, { encoding: "utf8", input });
  expect(stderr).toContain(" 0 bytes spill stores, 0 bytes spill loads");
});
