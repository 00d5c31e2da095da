/** Loads, stores and what only hints at them: PTX ISA 9.0, chapter 9.7.9. */

import type { OperandType } from "@tilewright/ptx";
import {
  emitAccess,
  emitLoadElement,
  emitStoreElement,
  type Space,
  scopes,
  strength,
  withScope,
} from "../compile/access.ts";
import type { Operand, Operation } from "../load/types.ts";
import { bitsOf, type Decoder, lane, onWarp, type Row, type Table } from "./row.ts";
import { tensormapPrefetch } from "./tensormap.ts";

const nothing: Operation = { kind: "lane", emit: () => "" };

const spaces = [
  "param",
  "param::entry",
  "param::func",
  "shared",
  "shared::cta",
  "shared::cluster",
  "global",
  "local",
  "const",
] as const;

export const spaceOf = (name: (typeof spaces)[number] | null): Space => {
  if (name === null) return "generic";
  if (name === "shared::cluster") return "cluster";
  const [head] = name.split("::");
  switch (head) {
    case "param":
    case "shared":
    case "global":
    case "local":
    case "const":
      return head;
    default:
      return "generic";
  }
};

interface Common {
  readonly space: Space;
  readonly strong: number;
  readonly vector: number;
}

function common(d: Decoder, load: boolean): Common {
  let strong: number = strength.weak;
  let scope: (typeof scopes)[number] | null = null;
  const order = d.option("weak", "volatile", "relaxed", "acquire", "release", "mmio");
  if (order === "relaxed" || order === "acquire" || order === "release") scope = d.choice(...scopes);
  if (order === "mmio") for (const word of ["relaxed", "sys"]) d.flag(word);
  if (order !== null && order !== "weak") strong = strength.strong;
  if (order === "acquire") strong |= strength.acquire;
  if (order === "release") strong |= strength.release;
  const space = spaceOf(d.option(...spaces));
  if (load) {
    d.flag("unified");
    if (d.flag("nc")) strong = strength.nonCoherent;
  }
  const cache = d.option("ca", "cg", "cs", "lu", "cv", "wb", "wt");
  // .cv and .wt fetch and write through: the pre-Volta spelling of volatile.
  if (cache === "cv" || cache === "wt") strong |= strength.strong;
  const vector = d.option("v2", "v4", "v8");
  if (strong !== strength.nonCoherent) strong = withScope(strong, scope);
  return { space, strong, vector: vector === null ? 1 : Number(vector.slice(1)) };
}

function elementsOf(operand: Operand, count: number, d: Decoder): readonly Operand[] {
  if (count === 1) return [operand];
  // A number for 128 bits, its words lowest first.
  if (operand.kind === "immediate")
    return Array.from({ length: count }, (_, k) => ({
      ...operand,
      bits: BigInt.asUintN(32, operand.bits >> BigInt(32 * k)),
    }));
  if (operand.kind !== "vector" || operand.elements.length !== count)
    return d.refuse(`needs a vector of ${count}`);
  return operand.elements;
}

/** Type and number of what is moved; 128 bits are the four words that a register of that width is. */
function elementType(d: Decoder, vector: number): { readonly type: OperandType; readonly count: number } {
  if (vector === 1 && d.flag("b128")) return { type: "b32", count: 4 };
  return { type: d.type(), count: vector };
}

const load: Row = (d) => {
  const { space, strong, vector } = common(d, true);
  const { type, count } = elementType(d, vector);
  const bytes = bitsOf(type) / 8;
  const size = bytes * count;
  const to = elementsOf(d.def(0), count, d);
  const address = d.address(1);
  const base = address.base;
  // .param of a kernel is its parameter window; variables declared .param in a body live in local memory.
  const from: Space =
    space === "param" && base.kind === "symbol" && base.variable.space === "local" ? "local" : space;
  if (from === "global" || from === "shared" || from === "local") d.traffic(from, size, 0);
  if (from === "cluster") d.traffic("shared", size, 0);
  if (from === "generic") d.traffic("global", size, 0);
  if ((strong & strength.strong) !== 0 && (from === "global" || from === "generic")) d.strongRead();
  return lane((e) => {
    const { code, offset } = emitAccess(e, from, address, size, "read", strong);
    return code + to.map((x, k) => emitLoadElement(e, x, type, offset, k * bytes)).join("");
  });
};

const store: Row = (d) => {
  const { space, strong, vector } = common(d, false);
  const { type, count } = elementType(d, vector);
  const bytes = bitsOf(type) / 8;
  const size = bytes * count;
  const address = d.address(0);
  const from = elementsOf(d.use(1), count, d);
  const base = address.base;
  const to: Space =
    space === "param" && base.kind === "symbol" && base.variable.space === "local" ? "local" : space;
  if (to === "param" || to === "const") d.refuse(`.${to} memory cannot be written`);
  if (to === "global" || to === "shared" || to === "local") d.traffic(to, 0, size);
  if (to === "cluster") d.traffic("shared", 0, size);
  if (to === "generic") d.traffic("global", 0, size);
  return lane((e) => {
    const { code, offset } = emitAccess(e, to, address, size, "write", strong);
    return code + from.map((x, k) => emitStoreElement(e, x, type, offset, k * bytes)).join("");
  });
};

/** Prefetches and cache controls: their address is read, nothing else happens. */
const prefetch: Row = (d) => {
  if (d.flag("tensormap")) return tensormapPrefetch(d);
  d.option("global", "local");
  d.option("L1", "L2");
  d.address(0);
  return nothing;
};

const cacheControl: Row = (d) => {
  d.option("global");
  d.address(0);
  d.literal(1);
  return nothing;
};

const createPolicy: Row = (d) => {
  d.option("global");
  const to = d.def(0, "int");
  for (let k = 1; k < d.operandCount; k++)
    if (d.isAddress(k)) d.address(k);
    else d.use(k);
  return lane((e) => e.setPair(to, "0", "0"));
};

const nanosleep: Row = (d) => {
  d.use(0, "int");
  return nothing;
};

export const memoryTable: Table = {
  ld: load,
  ldu: load,
  st: store,
  prefetch,
  prefetchu: prefetch,
  discard: cacheControl,
  applypriority: cacheControl,
  "createpolicy.fractional": createPolicy,
  "createpolicy.range": createPolicy,
  "createpolicy.cvt": createPolicy,
  nanosleep,
  // Programmatic dependent launch: launches here run one after another, and the checker follows what may not be touched before the wait.
  griddepcontrol: (d) => {
    if (d.choice("launch_dependents", "wait") === "launch_dependents") return nothing;
    return onWarp(({ warp }) => warp.block.race?.global?.dependencyMet(warp));
  },
  pmevent: (d) => {
    d.flag("mask");
    d.literal(0);
    return nothing;
  },
};
