/** atom and red: PTX ISA 9.0, chapters 9.7.13.5 and 9.7.13.6. Lanes run in order, which is one of the legal orders. */
import { emitAccess, scopes, strength, withScope } from "../compile/access.ts";
import type { LaneEmitter } from "../compile/emitter.ts";
import type { Operand, Operation } from "../load/types.ts";
import type { SumFormat } from "../numerics/exact-sums.ts";
import { spaceOf } from "./memory.ts";
import { bitsOf, type Decoder, isSigned, type Table } from "./row.ts";

const operations = ["add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"] as const;
type AtomicOperation = (typeof operations)[number];

const bitwise: Readonly<Record<string, string>> = { and: "&", or: "|", xor: "^" };

/** New value of a 32-bit word from `old` and operands, as a signed integer expression; null when not defined. */
function word(op: AtomicOperation, type: string, old: string, b: string, c: string): string | null {
  const unsigned = type === "u32";
  const o = unsigned ? `(${old}>>>0)` : old;
  const v = unsigned ? `(${b}>>>0)` : b;
  switch (op) {
    case "add":
      return `(${old}+${b})|0`;
    case "min":
    case "max":
      return `${op}(${o},${v})|0`;
    case "inc":
      return `(${old}>>>0)>=(${b}>>>0)?0:(${old}+1)|0`;
    case "dec":
      return `${old}===0||(${old}>>>0)>(${b}>>>0)?${b}:(${old}-1)|0`;
    case "exch":
      return b;
    case "cas":
      return `${old}===${b}?${c}:${old}`;
    case "and":
    case "or":
    case "xor":
      return `${old}${bitwise[op]}${b}`;
  }
}

/** The sum of what stands at byte `place` and another value. */
const sumOf = (e: LaneEmitter, format: SumFormat, place: string, old: string, b: string): string =>
  e.options.exactSums ? `exactSum("${format}",${place},${old},${b})` : `${old}+${b}`;

function halfWords(
  e: LaneEmitter,
  op: AtomicOperation,
  format: "F16" | "Bf16",
  place: string,
  old: string,
  b: string,
): string {
  const x = `from${format}(${old})`;
  const y = `from${format}(${b})`;
  const sum = e.options.exactSums
    ? sumOf(e, format === "F16" ? "f16" : "bf16", place, x, y)
    : `fmaOdd(${x},1,${y},"rn")`;
  return `to${format}(${op === "add" ? sum : `${op}2(${x},${y})`})`;
}

function atomic(d: Decoder, returns: boolean): Operation {
  const order = d.option("relaxed", "acquire", "release", "acq_rel");
  const scope = d.option(...scopes);
  const space = spaceOf(d.option("global", "shared", "shared::cta", "shared::cluster"));
  const op = d.choice(...operations);
  d.flag("noftz");
  const vector = d.option("v2", "v4", "v8");
  const type = d.type();
  // A register of 128 bits is four words.
  const whole = type === "b128";
  const count = vector === null ? (whole ? 4 : 1) : Number(vector.slice(1));
  const bytes = whole ? 4 : bitsOf(type) / 8;
  const float = type === "f32" || type === "f64";
  const view = float ? "float" : "int";
  const first = returns ? 1 : 0;
  const to = returns ? d.def(0, view) : null;
  const address = d.address(first);
  const b = d.use(first + 1, view);
  const c = op === "cas" ? d.use(first + 2, view) : null;
  let strong: number = strength.strong | strength.atomic;
  if (order === "acquire" || order === "acq_rel") strong |= strength.acquire;
  if (order === "release" || order === "acq_rel") strong |= strength.release;
  strong = withScope(strong, scope);
  const near = space === "shared" || space === "cluster";
  d.traffic(near ? "shared" : "global", returns ? bytes * count : 0, bytes * count);
  if (!near) d.strongRead();
  const elements = (operand: Operand): readonly Operand[] => {
    if (count === 1) return [operand];
    if (operand.kind !== "vector" || operand.elements.length !== count)
      return d.refuse(`needs a vector of ${count}`);
    return operand.elements;
  };
  const values = elements(b);
  const results = to === null || to.kind === "sink" ? null : elements(to);
  const swapped = whole && c !== null ? elements(c) : null;
  return {
    kind: "lane",
    emit: (e) => {
      const { code, offset } = emitAccess(e, space, address, bytes * count, "atomic", strong);
      if (whole) return code + quad(e, offset, values, swapped, results);
      const steps = values.map((value, k) => {
        const result = results?.[k] ?? { kind: "sink" as const };
        return one(e, op, type, offset, k * bytes, value, c, result);
      });
      return code + steps.join("");
    },
  };
}

/** exch and cas of four words. */
function quad(
  e: LaneEmitter,
  x: string,
  values: readonly Operand[],
  swapped: readonly Operand[] | null,
  results: readonly Operand[] | null,
): string {
  const cell = (k: number): string => `R[(${x}>>2)+${k}]`;
  const old = values.map(() => e.temporary());
  const stores = (swapped ?? values).map((value, k) => `${cell(k)}=${e.int(value)};`).join("");
  const same = values.map((value, k) => `${old[k]}===${e.int(value)}`).join("&&");
  const write = swapped === null ? stores : `if(${same}){${stores}}`;
  const names = old.map((name, k) => `${name}=${cell(k)}`).join();
  return `const ${names};${write}${(results ?? []).map((to, k) => e.setInt(to, old[k] ?? "0")).join("")}`;
}

function one(
  e: LaneEmitter,
  op: AtomicOperation,
  type: string,
  x: string,
  at: number,
  b: Operand,
  c: Operand | null,
  to: Operand,
): string {
  const old = e.temporary();
  if (type === "f32") {
    const cell = `F[(${x}>>2)+${at >> 2}]`;
    return `const ${old}=${cell};${cell}=fround(${sumOf(e, "f32", `${x}+${at}`, old, e.f32(b))});${e.setF32(to, old)}`;
  }
  if (type === "f64") {
    const cell = `D[(${x}>>3)+${at >> 3}]`;
    return `const ${old}=${cell};${cell}=${sumOf(e, "f64", `${x}+${at}`, old, e.f64(b))};${e.setF64(to, old)}`;
  }
  if (bitsOf(type) === 64) {
    const low = `R[(${x}>>2)+${at >> 2}]`;
    const high = `R[(${x}>>2)+${(at >> 2) + 1}]`;
    const oldHigh = e.temporary();
    const [cl, ch] = c === null ? ["0", "0"] : e.pair(c);
    const head = `const ${old}=${low},${oldHigh}=${high};`;
    const next = `${low}=atomic64("${op}",${isSigned(type) ? 1 : 0},${old},${oldHigh},${e.pair(b)},${cl},${ch});${high}=HI[0];`;
    return head + next + e.setPair(to, old, oldHigh);
  }
  if (type === "f16" || type === "bf16" || type === "b16") {
    const cell = `H[(${x}>>1)+${at >> 1}]`;
    const value = e.narrow(b, 16, false);
    const next =
      type === "b16"
        ? `${old}===${value}?${c === null ? "0" : e.narrow(c, 16, false)}:${old}`
        : halfWords(e, op, type === "f16" ? "F16" : "Bf16", `${x}+${at}`, old, value);
    return `const ${old}=${cell};${cell}=${next};${e.setInt(to, old)}`;
  }
  const cell = `R[(${x}>>2)+${at >> 2}]`;
  if (type === "f16x2" || type === "bf16x2") {
    const format = type === "f16x2" ? "F16" : "Bf16";
    const value = e.int(b);
    const low = halfWords(e, op, format, `${x}+${at}`, `${old}&65535`, `${value}&65535`);
    const high = halfWords(e, op, format, `${x}+${at + 2}`, `${old}>>>16`, `${value}>>>16`);
    return `const ${old}=${cell};${cell}=(${low})|((${high})<<16);${e.setInt(to, old)}`;
  }
  const next = word(op, type, old, e.int(b), c === null ? "0" : e.int(c)) ?? old;
  return `const ${old}=${cell};${cell}=${next};${e.setInt(to, old)}`;
}

export const atomicTable: Table = {
  atom: (d) => atomic(d, true),
  red: (d) => atomic(d, false),
};
