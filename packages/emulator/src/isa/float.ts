/** f32 and f64 arithmetic: PTX ISA 9.0, chapter 9.7.3. Half precision is in half.ts. */
import { type LaneEmitter, literal, numberOf } from "../compile/emitter.ts";
import type { Factors, LaneOperation, Operand, Operation, VectorForm } from "../load/types.ts";
import { productOf, sumOf } from "./fusion.ts";
import { halfTypes, packedHalf } from "./half.ts";
import { absInteger, addSub, minMaxInteger, negInteger } from "./integer.ts";
import { binary, type Decoder, lane, type Row, type Table, unary } from "./row.ts";

/** A lane operation that also has a vector form, when `plain`: nearest even, no flushing, no saturation. */
const vectorLane = (plain: boolean, vector: VectorForm, emit: (e: LaneEmitter) => string): LaneOperation =>
  plain ? { kind: "lane", emit, vector } : { kind: "lane", emit };

const roundings = ["rn", "rz", "rm", "rp"] as const;

const isFloat = (d: Decoder, ...types: readonly string[]): boolean =>
  types.some((t) => d.mnemonic.split(".").includes(t));

/** Wraps an f32 expression in flushing of subnormals and saturation to [0, 1]. */
export function finish(value: string, ftz: boolean, saturate: boolean): string {
  const flushed = ftz ? `flush(${value})` : value;
  return saturate ? `saturate(${flushed})` : flushed;
}

/** An f32 operand, flushed when the instruction has `.ftz`; or one of 16 bits (`add.f32.f16` of sm_100). */
const f32Of = (
  e: LaneEmitter,
  operand: Operand,
  ftz: boolean,
  half: "f16" | "bf16" | null = null,
): string => {
  if (half !== null) return `from${half === "f16" ? "F16" : "Bf16"}(${e.narrow(operand, 16, false)})`;
  return ftz ? `flush(${e.f32(operand)})` : e.f32(operand);
};

/**
 * Exact `fma.rn.f32` in place (README, "Numerics"). The double sum s of the exact product p and c is rounded to f; that is
 * a double rounding only if s is a tie between f and its mirror t = f + 2(s - f), which then is an f32 too. The sign of the
 * error of s (TwoSum) against s - f tells the side. Branch-free on purpose: a branch that is first taken when the function
 * is already optimised deoptimises it, once for each of up to 256 places.
 */
function fusedF32(a: string, b: string, c: string): { readonly head: string; readonly value: string } {
  return {
    head: `p=${a}*${b};s=p+${c};f=fround(s);d=s-f;t=f+2*d;bb=s-p;e=((p-(s-bb))+(${c}-bb))*d;bb=e>0?t:f;`,
    value: "(fround(t)===t?bb:f)",
  };
}

type PairOperation = "+" | "-" | "*";
const directed = { "+": "add", "-": "sub", "*": "mul" } as const;

/** The f32 fma of three expressions, written to `to`. */
function fmaTo(
  e: LaneEmitter,
  to: Operand,
  [x, y, z]: readonly [string, string, string],
  ftz: boolean,
  saturate: boolean,
): string {
  // The addend stands twice in the formula: flush it once.
  const addend = ftz ? e.temporary() : z;
  const exact = fusedF32(x, y, addend);
  return (ftz ? `const ${addend}=${z};` : "") + exact.head + e.setF32(to, finish(exact.value, ftz, saturate));
}

function arithmetic(d: Decoder, op: PairOperation): Operation {
  const packed = packedHalf(d, directed[op]);
  if (packed !== null) return packed;
  const given = d.option(...roundings);
  const rounding = given ?? "rn";
  const ftz = d.flag("ftz");
  const saturate = d.flag("sat");
  const type = d.type();
  if (type === "f32x2") return pairs(d, (a, b) => `${a}${op}${b}`, rounding, ftz, directed[op]);
  const half = type === "f32" ? d.option("f16", "bf16") : null;
  const to = d.def(0, "float");
  const a = d.use(1, half === null ? "float" : "int");
  const b = d.use(2, "float");
  const plain = rounding === "rn" && !ftz && !saturate && half === null;
  const value = (e: LaneEmitter): string =>
    rounding === "rn"
      ? `${e.f64(a)}${op}${e.f64(b)}`
      : `${directed[op]}F64(${e.f64(a)},${e.f64(b)},"${rounding}")`;
  const operation =
    type === "f64"
      ? lane((e) => e.setF64(to, value(e)))
      : vectorLane(plain, { op: directed[op], to, from: [a, b] }, (e) => {
          const [x, y] = [f32Of(e, a, ftz, half), f32Of(e, b, ftz)];
          const sum =
            rounding === "rn" ? `fround(${x}${op}${y})` : `${directed[op]}F32(${x},${y},"${rounding}")`;
          return e.setF32(to, finish(sum, ftz, saturate));
        });
  if (given !== null || half !== null) return operation;
  const form = `${type}${ftz ? ".ftz" : ""}`;
  if (op === "*") return saturate ? operation : { ...operation, product: productOf(form, a, b) };
  const sum = sumOf(directed[op], form, a, b, (terms, from, negated) =>
    type === "f64"
      ? lane((e) => e.setF64(to, `fmaF64(${terms((o) => e.f64(o)).join(",")},"rn")`))
      : vectorLane(plain && from !== null, { op: "fma", to, from: from ?? [], negated }, (e) =>
          fmaTo(
            e,
            to,
            terms((o) => f32Of(e, o, ftz)),
            ftz,
            saturate,
          ),
        ),
  );
  return { ...operation, sum };
}

/** The packed pair of f32 in a 64-bit register (sm_100): each half on its own. */
function pairs(
  d: Decoder,
  body: (a: string, b: string) => string,
  rounding: string,
  ftz: boolean,
  name: string,
): Operation {
  const [to, a, b] = binary(d);
  return lane((e) => {
    const x = e.pair(a);
    const y = e.pair(b);
    const one = (k: 0 | 1): string => {
      const u = ftz ? `flush(bitsFloat(${x[k]}))` : `bitsFloat(${x[k]})`;
      const v = ftz ? `flush(bitsFloat(${y[k]}))` : `bitsFloat(${y[k]})`;
      const value = rounding === "rn" ? `fround(${body(u, v)})` : `${name}F32(${u},${v},"${rounding}")`;
      return `floatBits(${finish(value, ftz, false)})`;
    };
    return e.setPair(to, one(0), one(1));
  });
}

/** fma and mad on floating point; `mad` without rounding is the same instruction from sm_20 on. */
function fused(d: Decoder): Operation {
  const packed = packedHalf(d, "fma");
  if (packed !== null) return packed;
  const rounding = d.option(...roundings) ?? "rn";
  const ftz = d.flag("ftz");
  const saturate = d.flag("sat");
  const type = d.type();
  const half = type === "f32" ? d.option("f16", "bf16") : null;
  const view = type === "f32x2" ? "int" : "float";
  const to = d.def(0, view);
  const a = d.use(1, half === null ? view : "int");
  const b = d.use(2, half === null ? view : "int");
  const c = d.use(3, view);
  if (type === "f64")
    return lane((e) => e.setF64(to, `fmaF64(${e.f64(a)},${e.f64(b)},${e.f64(c)},"${rounding}")`));
  if (type === "f32x2")
    return lane((e) => {
      const [x, y, z] = [e.pair(a), e.pair(b), e.pair(c)];
      const one = (k: 0 | 1): string => {
        const of = (v: readonly [string, string]): string =>
          ftz ? `flush(bitsFloat(${v[k]}))` : `bitsFloat(${v[k]})`;
        return `floatBits(${finish(`fmaF32(${of(x)},${of(y)},${of(z)},"${rounding}")`, ftz, false)})`;
      };
      return e.setPair(to, one(0), one(1));
    });
  const plain = rounding === "rn" && !ftz && !saturate && half === null;
  return vectorLane(plain, { op: "fma", to, from: [a, b, c] }, (e) => {
    const [x, y, z] = [f32Of(e, a, ftz, half), f32Of(e, b, ftz, half), f32Of(e, c, ftz)];
    if (rounding !== "rn") return e.setF32(to, finish(`fmaF32(${x},${y},${z},"${rounding}")`, ftz, saturate));
    return fmaTo(e, to, [x, y, z], ftz, saturate);
  });
}

/** A number that ptxas knows: it computes approximate functions of it itself, and rounds to nearest. */
function knownF32(operand: Operand): number | null {
  const known = operand.kind === "register" ? operand.register.constant : operand;
  return known?.kind === "immediate" ? numberOf(known) : null;
}

const divide: Row = (d) => {
  const mode = d.choice("approx", "full", ...roundings);
  const ftz = d.flag("ftz");
  const type = d.type();
  const [to, a, b] = binary(d, "float");
  if (type === "f64") return lane((e) => e.setF64(to, `divF64(${e.f64(a)},${e.f64(b)},"${mode}")`));
  if (mode !== "approx" && mode !== "full")
    return lane((e) =>
      e.setF32(to, finish(`divF32(${f32Of(e, a, ftz)},${f32Of(e, b, ftz)},"${mode}")`, ftz, false)),
    );
  // A product with a reciprocal, which a sum takes in as any other.
  const factors: Factors = (read) => {
    const scaled = (x: string): string => `fround(${x}*${mode}Scale(${read(b)}))`;
    const inverse = `${knownF32(b) === null ? "rcpApprox" : "rcpExact"}(${scaled(read(b))})`;
    return [scaled(read(a)), mode === "full" ? inverse : `flush(${inverse})`];
  };
  const operation = lane((e) => {
    const [x, y] = factors((o) => f32Of(e, o, ftz));
    return e.setF32(to, finish(`fround(${x}*${y})`, ftz, false));
  });
  const form = `f32${ftz ? ".ftz" : ""}`;
  return { ...operation, product: { form, operands: [a, b], factors, plain: false } };
};

/** rcp, sqrt: one operand, `.approx` or correctly rounded. */
const rooted =
  (name: "rcp" | "sqrt"): Row =>
  (d) => {
    const mode = d.choice("approx", ...roundings);
    const ftz = d.flag("ftz");
    const type = d.type();
    const [to, a] = unary(d, "float");
    if (type === "f64") {
      // Only rcp.approx.ftz.f64 exists.
      if (mode === "approx") return lane((e) => e.setF64(to, `rcpApprox64(${e.f64(a)})`));
      return lane((e) =>
        e.setF64(to, name === "rcp" ? `divF64(1,${e.f64(a)},"${mode}")` : `sqrtF64(${e.f64(a)},"${mode}")`),
      );
    }
    return lane((e) => {
      const x = f32Of(e, a, ftz);
      const rounding = mode === "approx" ? "rn" : mode;
      const exact = name === "rcp" ? `divF32(1,${x},"${rounding}")` : `sqrtF32(${x},"${rounding}")`;
      const value = mode === "approx" && knownF32(a) === null ? `${name}Approx(${x})` : exact;
      return e.setF32(to, finish(value, ftz, false));
    });
  };

/** Functions of a number that ptxas knows. */
const ofConstant: Readonly<Record<string, (x: number) => number>> = {
  rsqrt: (x) => 1 / Math.sqrt(x),
  ex2: (x) => 2 ** x,
  lg2: Math.log2,
  sin: Math.sin,
  cos: Math.cos,
};

/** Approximate functions, with the hardware's bits. */
const approximate =
  (name: string): Row =>
  (d) => {
    const half = name === "ex2" || name === "tanh" ? packedHalf(d, name) : null;
    if (half !== null) return half;
    const ftz = d.flag("ftz");
    // Only rsqrt has f64; of the others f32 is the only type.
    const wide = d.flag("f64");
    d.flag("f32");
    const [to, a] = unary(d, "float");
    if (wide) {
      const value = ftz ? "rsqrtFlushed64" : "rsqrtApprox64";
      return lane((e) => e.setF64(to, `${value}(${e.f64(a)})`));
    }
    const mode = name === "ex2" ? `,${ftz}` : "";
    return lane((e) => {
      const known = knownF32(a);
      const fold = known === null ? undefined : ofConstant[name];
      const value =
        fold === undefined || known === null
          ? `${name}Approx(${f32Of(e, a, ftz)}${mode})`
          : literal(Math.fround(fold(known)));
      return e.setF32(to, finish(value, ftz, false));
    });
  };

function sign(d: Decoder, op: "neg" | "abs"): Operation | null {
  if (!isFloat(d, "f32", "f64")) return packedHalf(d, op);
  const ftz = d.flag("ftz");
  const type = d.type();
  const [to, a] = unary(d, "float");
  return lane((e) => {
    const of = (x: string): string => (op === "neg" ? `-${x}` : `abs(${x})`);
    return type === "f64" ? e.setF64(to, of(e.f64(a))) : e.setF32(to, of(f32Of(e, a, ftz)));
  });
}

function minMax(d: Decoder, op: "min" | "max"): Operation {
  const half = packedHalf(d, op);
  if (half !== null) return half;
  const ftz = d.flag("ftz");
  const nan = d.flag("NaN");
  const xorsign = d.flag("xorsign");
  const magnitudes = d.flag("abs");
  const type = d.type();
  const to = d.def(0, "float");
  const operands = Array.from({ length: d.operandCount - 1 }, (_, k) => d.use(k + 1, "float"));
  const [a, b, c] = operands;
  if (a === undefined || b === undefined) return d.refuse("needs two operands");
  const name = `${op}${nan ? "NaN" : "2"}`;
  if (type === "f64") return lane((e) => e.setF64(to, `${name}(${e.f64(a)},${e.f64(b)})`));
  return lane((e) => {
    const of = (operand: Operand): string =>
      magnitudes ? `abs(${f32Of(e, operand, ftz)})` : f32Of(e, operand, ftz);
    const two = `${name}(${of(a)},${of(b)})`;
    if (xorsign) return e.setF32(to, `xorsign(${two},${f32Of(e, a, ftz)},${f32Of(e, b, ftz)})`);
    return e.setF32(to, c === undefined ? two : `${name}(${two},${of(c)})`);
  });
}

const testp: Row = (d) => {
  const op = d.choice("finite", "infinite", "number", "notanumber", "normal", "subnormal");
  const type = d.type();
  const to = d.def(0, "int");
  const a = d.use(1, "float");
  return lane((e) =>
    e.setInt(
      to,
      `testp(${type === "f32" ? e.f32(a) : e.f64(a)},"${op}",${type === "f32" ? "1.1754943508222875e-38" : "2.2250738585072014e-308"})?1:0`,
    ),
  );
};

const copysign: Row = (d) => {
  const type = d.type();
  const [to, a, b] = binary(d, "float");
  return lane((e) =>
    type === "f32"
      ? e.setF32(to, `copysign(${e.f32(a)},${e.f32(b)})`)
      : e.setF64(to, `copysign(${e.f64(a)},${e.f64(b)})`),
  );
};

const floating = ["f32", "f64", "f32x2", ...halfTypes] as const;

/** Opcodes that PTX shares between integers and floating point: the type decides. */
const shared =
  (float: (d: Decoder) => Operation | null, integer: (d: Decoder) => Operation): Row =>
  (d) =>
    isFloat(d, ...floating) ? (float(d) ?? d.refuse("not defined for this type")) : integer(d);

export function floatTable(integer: Table): Table {
  const whole = (name: string): Row => integer[name] ?? ((d) => d.refuse("unknown"));
  return {
    add: shared(
      (d) => arithmetic(d, "+"),
      (d) => addSub(d, "+"),
    ),
    sub: shared(
      (d) => arithmetic(d, "-"),
      (d) => addSub(d, "-"),
    ),
    mul: shared((d) => arithmetic(d, "*"), whole("mul")),
    mad: shared(fused, whole("mad")),
    fma: fused,
    div: shared(divide, whole("div")),
    rcp: rooted("rcp"),
    sqrt: rooted("sqrt"),
    rsqrt: approximate("rsqrt"),
    ex2: approximate("ex2"),
    lg2: approximate("lg2"),
    sin: approximate("sin"),
    cos: approximate("cos"),
    tanh: approximate("tanh"),
    neg: shared((d) => sign(d, "neg"), negInteger),
    abs: shared((d) => sign(d, "abs"), absInteger),
    min: shared(
      (d) => minMax(d, "min"),
      (d) => minMaxInteger(d, "min"),
    ),
    max: shared(
      (d) => minMax(d, "max"),
      (d) => minMaxInteger(d, "max"),
    ),
    testp,
    copysign,
  };
}
