/** Bits: logic, shifts, fields, permutations. PTX ISA 9.0, chapters 9.7.8 and 9.7.1. */
import type { LaneEmitter } from "../compile/emitter.ts";
import type { LaneOperation, Operand } from "../load/types.ts";
import { binary, bitsOf, isSigned, lane, type Row, type Table, ternary, unary } from "./row.ts";

/** Which bytes a shift by a constant defines; null, as other arithmetic, by a count that is computed. */
const shifted = (
  a: Operand,
  n: Operand,
  bits: number,
  left: boolean,
  signed = false,
): Partial<LaneOperation> =>
  n.kind !== "immediate"
    ? {}
    : {
        defined: (e) =>
          `shiftedBytes(${e.defined(a)},${Math.min(bits, Number(BigInt.asUintN(32, n.bits))) * (left ? 1 : -1)},${bits / 8},${signed})`,
      };

const logic =
  (op: "&" | "|" | "^"): Row =>
  (d) => {
    const bits = bitsOf(d.type());
    const to = d.def(0, "int");
    const [a, b] = bits === 1 ? [d.predicate(1), d.predicate(2)] : [d.use(1, "int"), d.use(2, "int")];
    return {
      ...lane((e) => {
        if (bits < 64) return e.setNarrow(to, bits === 1 ? 32 : bits, `${e.int(a)}${op}${e.int(b)}`);
        const [al, ah] = e.pair(a);
        const [bl, bh] = e.pair(b);
        return e.setPair(to, `${al}${op}${bl}`, `${ah}${op}${bh}`);
      }),
      defined: (e) => {
        const [x, y] = [e.defined(a), e.defined(b)];
        if (op === "^") return `${x}&${y}`;
        // A byte of zeros settles `and`, one of ones `or`; a predicate is a word of 0 or 1.
        const settles = (operand: Operand): string => {
          const words = bits === 64 ? e.pair(operand) : [e.int(operand), op === "&" ? "0" : "-1"];
          if (bits === 1) return `(${words[0]}===${op === "&" ? 0 : 1}?255:0)`;
          return `zeroBytes(${words.map((word) => (op === "&" ? word : `~${word}`)).join()})`;
        };
        return `(${x}&${y})|(${x}&${settles(a)})|(${y}&${settles(b)})`;
      },
    };
  };

const not: Row = (d) => {
  const bits = bitsOf(d.type());
  const to = d.def(0, "int");
  const a = bits === 1 ? d.predicate(1) : d.use(1, "int");
  const emit = (e: LaneEmitter): string => {
    if (bits === 1) return e.setInt(to, `${e.int(a)}^1`);
    if (bits < 64) return e.setNarrow(to, bits, `~${e.int(a)}`);
    const [l, h] = e.pair(a);
    return e.setPair(to, `~${l}`, `~${h}`);
  };
  return { ...lane(emit), defined: (e) => e.defined(a) };
};

const cnot: Row = (d) => {
  const bits = bitsOf(d.type());
  const [to, a] = unary(d);
  return lane((e) => {
    if (bits < 64) return e.setInt(to, `${e.narrow(a, bits, false)}===0?1:0`);
    const [l, h] = e.pair(a);
    return e.setPair(to, `(${l}|${h})===0?1:0`, "0");
  });
};

/** Shift counts clamp at the width: a larger count shifts everything out. */
const shl: Row = (d) => {
  const bits = bitsOf(d.type());
  const [to, a, n] = binary(d);
  const emit = (e: LaneEmitter): string => {
    const constant = n.kind === "immediate" ? Number(BigInt.asUintN(32, n.bits)) : null;
    if (bits < 64) {
      if (constant !== null) return e.setNarrow(to, bits, constant > 31 ? "0" : `${e.int(a)}<<${constant}`);
      return e.setNarrow(to, bits, `${e.uint(n)}>31?0:${e.int(a)}<<${e.int(n)}`);
    }
    const [l, h] = e.pair(a);
    if (constant === null) return e.setPair(to, `shl64(${l},${h},${e.uint(n)})`, "HI[0]");
    if (constant === 0) return e.setPair(to, l, h);
    if (constant < 32)
      return e.setPair(to, `${l}<<${constant}`, `(${h}<<${constant})|(${l}>>>${32 - constant})`);
    return e.setPair(to, "0", constant > 63 ? "0" : `${l}<<${constant - 32}`);
  };
  return { ...lane(emit), ...shifted(a, n, bits, true) };
};

const shr: Row = (d) => {
  const type = d.type();
  const bits = bitsOf(type);
  const signed = isSigned(type);
  const [to, a, n] = binary(d);
  const emit = (e: LaneEmitter): string => {
    const constant = n.kind === "immediate" ? Number(BigInt.asUintN(32, n.bits)) : null;
    const arrow = signed ? ">>" : ">>>";
    if (bits < 64) {
      const x = e.narrow(a, bits, signed);
      if (constant !== null)
        return e.setNarrow(to, bits, constant > 31 ? (signed ? `${x}>>31` : "0") : `${x}${arrow}${constant}`);
      return e.setNarrow(to, bits, `${e.uint(n)}>31?${signed ? `${x}>>31` : "0"}:${x}${arrow}${e.int(n)}`);
    }
    const [l, h] = e.pair(a);
    if (constant === null)
      return e.setPair(to, `${signed ? "sar64" : "shr64"}(${l},${h},${e.uint(n)})`, "HI[0]");
    const top = signed ? `${h}>>31` : "0";
    if (constant === 0) return e.setPair(to, l, h);
    if (constant < 32)
      return e.setPair(to, `(${l}>>>${constant})|(${h}<<${32 - constant})`, `(${h}${arrow}${constant})|0`);
    return e.setPair(to, constant > 63 ? top : `(${h}${arrow}${constant - 32})|0`, top);
  };
  return { ...lane(emit), ...shifted(a, n, bits, false, signed) };
};

/** shf: the funnel shift of {hi, lo}; `.wrap` takes the count modulo 32, `.clamp` stops at 32. */
const shf: Row = (d) => {
  const direction = d.choice("l", "r");
  const mode = d.choice("clamp", "wrap");
  const [to, lo, hi, n] = ternary(d);
  return lane((e) =>
    e.setInt(
      to,
      `funnel${direction === "l" ? "Left" : "Right"}(${e.int(lo)},${e.int(hi)},${mode === "wrap" ? `${e.int(n)}&31` : `min(32,${e.uint(n)})`})`,
    ),
  );
};

/** lop3: the sum of products that the table names; each set bit of it is one product. */
function lop3Expression(table: number, a: string, b: string, c: string): string {
  if (table === 0) return "0";
  if (table === 0xff) return "-1";
  // Bit k of the table is the value at a = k>>2 & 1, b = k>>1 & 1, c = k & 1. Shannon expansion over c keeps it short.
  const two = (bits: number): string => {
    const forms: Readonly<Record<number, string>> = {
      0: "0",
      1: `~(${a}|${b})`,
      2: `(~${a}&${b})`,
      3: `~${a}`,
      4: `(${a}&~${b})`,
      5: `~${b}`,
      6: `(${a}^${b})`,
      7: `~(${a}&${b})`,
      8: `(${a}&${b})`,
      9: `~(${a}^${b})`,
      10: b,
      11: `(~${a}|${b})`,
      12: a,
      13: `(${a}|~${b})`,
      14: `(${a}|${b})`,
      15: "-1",
    };
    return forms[bits] ?? "0";
  };
  let low = 0;
  let high = 0;
  for (let k = 0; k < 4; k++) {
    low |= ((table >> (2 * k)) & 1) << k;
    high |= ((table >> (2 * k + 1)) & 1) << k;
  }
  if (low === high) return two(low);
  if (low === 0) return `(${two(high)}&${c})`;
  if (high === 0) return `(${two(low)}&~${c})`;
  if (low === 0xf) return `(${two(high)}|~${c})`;
  if (high === 0xf) return `(${two(low)}|${c})`;
  if (low === (high ^ 0xf)) return `(${two(low)}^${c})`;
  return `((${two(high)}&${c})|(${two(low)}&~${c}))`;
}

const lop3: Row = (d) => {
  const combine = d.option("and", "or");
  const pair = combine === null ? null : d.def(0, "int");
  const to = pair ?? d.def(0, "int");
  const a = d.use(1, "int");
  const b = d.use(2, "int");
  const c = d.use(3, "int");
  const table = d.literal(4) & 0xff;
  const q = combine === null ? null : d.predicate(5);
  return lane((e) => {
    const value = lop3Expression(table, e.int(a), e.int(b), e.int(c));
    if (q === null || to.kind !== "pair") return e.setInt(to, `${value}|0`);
    const t = e.temporary();
    const predicate = `(${t}!==0?1:0)${combine === "and" ? "&" : "|"}${e.int(q)}`;
    return `const ${t}=${value}|0;${e.setInt(to.first, t)}${e.setInt(to.second, predicate)}`;
  });
};

const bfe: Row = (d) => {
  const type = d.type();
  const [to, a, start, length] = ternary(d);
  const signed = isSigned(type);
  return lane((e) => {
    const at = `${e.int(start)}&255`;
    const len = `${e.int(length)}&255`;
    if (bitsOf(type) === 32) return e.setInt(to, `${signed ? "bfeS32" : "bfeU32"}(${e.int(a)},${at},${len})`);
    return e.setPair(to, `${signed ? "bfeS64" : "bfeU64"}(${e.pair(a)},${at},${len})`, "HI[0]");
  });
};

const bfi: Row = (d) => {
  const type = d.type();
  const [to, a, b, start] = ternary(d);
  const length = d.use(4, "int");
  return lane((e) => {
    const at = `${e.int(start)}&255`;
    const len = `${e.int(length)}&255`;
    if (type === "b32") return e.setInt(to, `bfi32(${e.int(a)},${e.int(b)},${at},${len})`);
    return e.setPair(to, `bfi64(${e.pair(a)},${e.pair(b)},${at},${len})`, "HI[0]");
  });
};

const brev: Row = (d) => {
  const type = d.type();
  const [to, a] = unary(d);
  return lane((e) => {
    if (type === "b32") return e.setInt(to, `reverse32(${e.int(a)})`);
    const [l, h] = e.pair(a);
    return e.setPair(to, `reverse32(${h})`, `reverse32(${l})`);
  });
};

const popc: Row = (d) => {
  const type = d.type();
  const [to, a] = unary(d);
  return lane((e) => {
    if (type === "b32") return e.setInt(to, `popcount(${e.int(a)})`);
    const [l, h] = e.pair(a);
    return e.setInt(to, `popcount(${l})+popcount(${h})`);
  });
};

const clz: Row = (d) => {
  const type = d.type();
  const [to, a] = unary(d);
  return lane((e) => {
    if (type === "b32") return e.setInt(to, `clz32(${e.int(a)})`);
    const [l, h] = e.pair(a);
    return e.setInt(to, `${h}===0?32+clz32(${l}):clz32(${h})`);
  });
};

/** bfind: the position of the most significant bit that is not a sign bit; all ones when there is none. */
const bfind: Row = (d) => {
  const amount = d.flag("shiftamt");
  const type = d.type();
  const [to, a] = unary(d);
  return lane((e) => {
    const [l, h] = bitsOf(type) === 64 ? e.pair(a) : [e.int(a), "0"];
    return e.setInt(to, `bfind(${l},${h},${bitsOf(type)},${isSigned(type) ? 1 : 0},${amount ? 1 : 0})`);
  });
};

const fns: Row = (d) => {
  const [to, mask, base, offset] = ternary(d);
  return lane((e) => e.setInt(to, `nthSet(${e.int(mask)},${e.int(base)},${e.int(offset)})`));
};

const prmtModes = ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"] as const;

const prmt: Row = (d) => {
  const mode = d.option(...prmtModes);
  const [to, a, b, selector] = ternary(d);
  if (mode !== null)
    return lane((e) =>
      e.setInt(to, `prmtMode(${e.int(a)},${e.int(b)},${e.int(selector)},${prmtModes.indexOf(mode)})`),
    );
  return {
    ...lane((e) => e.setInt(to, `prmt(${e.int(a)},${e.int(b)},${e.int(selector)})`)),
    defined: (e) =>
      `${e.defined(selector)}===255?permutedBytes(${e.defined(a)},${e.defined(b)},${e.int(selector)}):0`,
  };
};

const bmsk: Row = (d) => {
  const mode = d.choice("clamp", "wrap");
  const [to, start, length] = binary(d);
  return lane((e) => e.setInt(to, `bmsk(${e.uint(start)},${e.uint(length)},${mode === "wrap" ? 1 : 0})`));
};

const szext: Row = (d) => {
  const mode = d.choice("clamp", "wrap");
  const type = d.type();
  const [to, a, n] = binary(d);
  return lane((e) => {
    const bits = mode === "wrap" ? `${e.int(n)}&31` : `min(32,${e.uint(n)})`;
    return e.setInt(to, `${isSigned(type) ? "bfeS32" : "bfeU32"}(${e.int(a)},0,${bits})`);
  });
};

export const logicTable: Table = {
  and: logic("&"),
  or: logic("|"),
  xor: logic("^"),
  not,
  cnot,
  shl,
  shr,
  shf,
  lop3,
  bfe,
  bfi,
  brev,
  popc,
  clz,
  bfind,
  fns,
  prmt,
  bmsk,
  szext,
};
