/** Hand edits of a chain of two products: what the multiplying role and the threads of the epilogue hand each other. */
import { readFileSync } from "node:fs";
import { type HandEdit, handEditsOf } from "@tilewright/conformance";
import { findTarget } from "@tilewright/core";
import { tcgen05 } from "../src/index.ts";

const stuck = /^H0(20|30)/;

const edits: readonly HandEdit[] = [
  {
    what: "a factor is handed over behind no fence",
    change: { kind: "drop", line: /fence async/ },
    code: "TW3146",
    line: /mma %tacc/,
    ptx: /^-.*fence\.proxy\.async/,
    emulator: /^H03/,
  },
  {
    what: "lanes of a warp write a factor when one of them has arrived for all",
    change: { kind: "drop", line: /warp\.sync/, nth: 1 },
    code: "TW3153",
    line: /mbar\.arrive %factors_full/,
    ptx: /^-.*bar\.warp\.sync/,
    emulator: null,
  },
  {
    what: "nobody is told of a factor",
    change: { kind: "drop", line: /mbar\.arrive %factors_full/ },
    code: "TW3145",
    line: /mbar\.wait %(factors|products1)_full/,
    ptx: /mbarrier\.arrive|mad\.lo|elect|^[+-]$/,
    emulator: stuck,
  },
  {
    what: "a factor is multiplied before it is there",
    change: { kind: "drop", line: /mbar\.wait %factors_full/ },
    code: "TW3157",
    line: /mma %tacc/,
    ptx: /./,
    emulator: /^[HD]/,
  },
  {
    what: "a factor is kept by the products",
    change: { kind: "drop", line: /tcgen05\.commit %factors_empty/ },
    code: "TW3144",
    line: /ring %factors/,
    ptx: /tcgen05\.commit|mad\.lo/,
    // A work tile has one.
    emulator: null,
  },
  {
    what: "the second product adds to what stood there",
    change: { kind: "replace", line: /mma %tacc/, from: / keep .*$/, to: "" },
    code: "TW3158",
    line: /mma %tacc/,
    ptx: /./,
    emulator: /^[HD]/,
  },
];

const target = findTarget("sm_100a");
if (!target.ok) throw new Error("sm_100a is known");
const from = readFileSync(new URL("../../../examples/two-products.tile", import.meta.url), "utf8");
handEditsOf(tcgen05, "a chain of two products", { from, target: target.value }, edits, { numSms: 1 });
