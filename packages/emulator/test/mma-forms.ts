/**
 * One kernel per form of mma.sync, with inputs that go at its arithmetic: used to record what a GPU answers and to compare.
 * A block runs one case; register r of lane l of the case is word (case * registers + r) * 32 + l of its buffer, and a 64-bit
 * register takes two such rows.
 */
import { generator } from "./random.ts";

export interface MmaForm {
  readonly name: string;
  readonly a: string;
  readonly b: string;
  readonly c: string;
  readonly d: string;
  /** Registers of each operand: d, a, b, c. */
  readonly counts: readonly [number, number, number, number];
}

const form = (
  mods: string,
  types: readonly [string, string, string, string],
  counts: MmaForm["counts"],
  tail = "",
): MmaForm => ({
  name: `mma.sync.aligned.${mods}.${types.join(".")}${tail}`,
  d: types[0],
  a: types[1],
  b: types[2],
  c: types[3],
  counts,
});

const volta = (["row", "col"] as const).flatMap((a) =>
  (["row", "col"] as const).flatMap((b) => [
    form(`m8n8k4.${a}.${b}`, ["f16", "f16", "f16", "f16"], [4, 2, 2, 4]),
    form(`m8n8k4.${a}.${b}`, ["f32", "f16", "f16", "f16"], [8, 2, 2, 4]),
    form(`m8n8k4.${a}.${b}`, ["f32", "f16", "f16", "f32"], [8, 2, 2, 8]),
  ]),
);
const bytes = [
  ["e4m3", "e4m3"],
  ["e5m2", "e5m2"],
  ["e4m3", "e5m2"],
  ["e5m2", "e4m3"],
] as const;
const integers = [
  ["s8", "s8"],
  ["u8", "u8"],
  ["s8", "u8"],
  ["u8", "s8"],
] as const;
const nibbles = [
  ["s4", "s4"],
  ["u4", "u4"],
  ["s4", "u4"],
] as const;

/** Every form from sm_70 to sm_90, with the mixtures of operand types. */
export const forms: readonly MmaForm[] = [
  ...volta,
  form("m16n8k8.row.col", ["f16", "f16", "f16", "f16"], [2, 2, 1, 2]),
  form("m16n8k8.row.col", ["f32", "f16", "f16", "f32"], [4, 2, 1, 4]),
  form("m16n8k16.row.col", ["f16", "f16", "f16", "f16"], [2, 4, 2, 2]),
  form("m16n8k16.row.col", ["f32", "f16", "f16", "f32"], [4, 4, 2, 4]),
  form("m16n8k8.row.col", ["f32", "bf16", "bf16", "f32"], [4, 2, 1, 4]),
  form("m16n8k16.row.col", ["f32", "bf16", "bf16", "f32"], [4, 4, 2, 4]),
  form("m16n8k4.row.col", ["f32", "tf32", "tf32", "f32"], [4, 2, 1, 4]),
  form("m16n8k8.row.col", ["f32", "tf32", "tf32", "f32"], [4, 4, 2, 4]),
  ...bytes.flatMap(([a, b]) => [
    form("m16n8k16.row.col", ["f32", a, b, "f32"], [4, 2, 1, 4]),
    form("m16n8k16.row.col", ["f16", a, b, "f16"], [2, 2, 1, 2]),
    form("m16n8k32.row.col", ["f32", a, b, "f32"], [4, 4, 2, 4]),
    form("m16n8k32.row.col", ["f16", a, b, "f16"], [2, 4, 2, 2]),
  ]),
  form("m8n8k4.row.col", ["f64", "f64", "f64", "f64"], [2, 1, 1, 2]),
  form("m8n8k4.row.col.rz", ["f64", "f64", "f64", "f64"], [2, 1, 1, 2]),
  form("m16n8k4.row.col", ["f64", "f64", "f64", "f64"], [4, 2, 1, 4]),
  form("m16n8k8.row.col.rp", ["f64", "f64", "f64", "f64"], [4, 4, 2, 4]),
  form("m16n8k16.row.col", ["f64", "f64", "f64", "f64"], [4, 8, 4, 4]),
  ...integers.flatMap(([a, b]) => [
    form("m8n8k16.row.col", ["s32", a, b, "s32"], [2, 1, 1, 2]),
    form("m16n8k16.row.col.satfinite", ["s32", a, b, "s32"], [4, 2, 1, 4]),
    form("m16n8k32.row.col", ["s32", a, b, "s32"], [4, 4, 2, 4]),
    form("m16n8k32.row.col.satfinite", ["s32", a, b, "s32"], [4, 4, 2, 4]),
  ]),
  ...nibbles.flatMap(([a, b]) => [
    form("m8n8k32.row.col", ["s32", a, b, "s32"], [2, 1, 1, 2]),
    form("m16n8k32.row.col.satfinite", ["s32", a, b, "s32"], [4, 2, 1, 4]),
    form("m16n8k64.row.col", ["s32", a, b, "s32"], [4, 4, 2, 4]),
  ]),
  ...["xor", "and"].flatMap((op) => [
    form("m8n8k128.row.col", ["s32", "b1", "b1", "s32"], [2, 1, 1, 2], `.${op}.popc`),
    form("m16n8k128.row.col", ["s32", "b1", "b1", "s32"], [4, 2, 1, 4], `.${op}.popc`),
    form("m16n8k256.row.col", ["s32", "b1", "b1", "s32"], [4, 4, 2, 4], `.${op}.popc`),
  ]),
];

/** A kernel `k(a, b, c, d)` that runs the form once in each warp-sized block. */
export function kernelOf({ name, a, c, d, counts }: MmaForm): string {
  const lines: string[] = [];
  const wide = a === "f64";
  const list = (operand: string, count: number): string =>
    `{${Array.from({ length: count }, (_, r) => `%${operand}${r}`).join(", ")}}`;
  const type = (name: string): string => (name === "f32" ? "f32" : name === "f64" ? "f64" : "b32");
  const size = wide ? 8 : 4;
  const names = ["d", "a", "b", "c"] as const;
  const types = [type(d), wide ? "f64" : "b32", wide ? "f64" : "b32", type(c)];
  lines.push(...names.map((operand, k) => `.reg .${types[k]} %${operand}<${counts[k]}>;`));
  names.forEach((operand, k) => {
    const count = counts[k] ?? 0;
    lines.push(
      `ld.param.u64 %p, [p${operand}];`,
      `cvta.to.global.u64 %p, %p;`,
      `mad.wide.u32 %p, %block, ${count * 32 * size}, %p;`,
      `mad.wide.u32 %p${operand}, %lane, ${size}, %p;`,
    );
    if (operand !== "d")
      for (let r = 0; r < count; r++)
        lines.push(`ld.global.${types[k]} %${operand}${r}, [%p${operand}+${r * 32 * size}];`);
  });
  const [nd, na, nb, nc] = counts;
  lines.push(`${name} ${list("d", nd)}, ${list("a", na)}, ${list("b", nb)}, ${list("c", nc)};`);
  for (let r = 0; r < nd; r++) lines.push(`st.global.${types[0]} [%pd+${r * 32 * size}], %d${r};`);
  return `.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u64 pd)
{
.reg .b32 %lane, %block;
.reg .b64 %p, %pa, %pb, %pc, %pd;
mov.u32 %lane, %tid.x;
mov.u32 %block, %ctaid.x;
${lines.join("\n")}
ret;
}
`;
}

/** Exponent and fraction bits of the floating-point types in registers. */
const fields: Readonly<Record<string, readonly [number, number]>> = {
  f16: [5, 10],
  bf16: [8, 7],
  tf32: [8, 23],
  f32: [8, 23],
  e4m3: [4, 3],
  e5m2: [5, 2],
  f64: [11, 52],
};

/** What the elements of a case are like. */
export const inputClasses = [
  "uniform",
  "wide",
  "bits",
  "subnormal",
  "special",
  "positive",
  "accumulator",
  "tiny",
] as const;
export type InputClass = (typeof inputClasses)[number];
/** Blocks per class. */
export const casesPerClass = 4;

/** The next so many random bits, 52 at most. */
export type Bits = (count: number) => number;

/** Random bits by the reproducible generator, 16 at a time; the first ones drawn are the highest. */
export function bitSource(seed: number): Bits {
  const next = generator(seed);
  return (count) => {
    let value = 0;
    for (let have = 0; have < count; have += 16) {
      const drawn = Math.floor(next() * 65536);
      value = count <= 16 ? drawn % 2 ** count : (value % 2 ** (count - 16)) * 65536 + drawn;
    }
    return value;
  };
}

/** The code of one element: its low 32 bits, and those above. */
type Code = readonly [low: number, high: number];

export function element(type: string, kind: InputClass, operand: "a" | "b" | "c", bits: Bits): Code {
  const field = fields[type];
  if (field === undefined) return [bits(type === "s32" ? 32 : Number(type.slice(1))), 0];
  const [e, m] = field;
  const top = 2 ** e - 1;
  const bias = top >> 1;
  const compose = (sign: number, exponent: number, fraction: number): Code => {
    const head = sign * 2 ** e + exponent;
    if (m <= 32) return [head * 2 ** m + fraction, 0];
    return [fraction % 2 ** 32, head * 2 ** (m - 32) + Math.floor(fraction / 2 ** 32)];
  };
  const near = (spread: number): number => Math.max(0, bias - bits(spread));
  const fraction = bits(m);
  const sign = bits(1);
  switch (kind) {
    case "uniform":
      return compose(sign, near(2), fraction);
    case "positive":
      return compose(0, near(1), fraction);
    case "wide":
      return compose(sign, bits(e) % top, fraction);
    case "bits": {
      const high = e + m + 1 > 32 ? bits(e + m + 1 - 32) : 0;
      return [bits(Math.min(32, e + m + 1)), high];
    }
    case "subnormal":
      return compose(sign, bits(2) === 0 ? 1 : 0, fraction);
    case "accumulator": {
      if (operand !== "c") return compose(sign, near(2), fraction);
      return compose(sign, Math.min(top - 1, Math.max(0, bias + 8 - bits(5))), fraction);
    }
    case "tiny":
      // Products near the least exponents, so that results are subnormal or vanish.
      return compose(sign, operand === "c" ? bits(1) : (bias >> 1) + bits(2), fraction);
    case "special": {
      const pick = bits(5);
      if (pick >= 8) return compose(sign, near(2), fraction);
      const odd = fraction + 1 - (fraction % 2);
      const codes = [
        [0, 0],
        [0, 0],
        [0, 1],
        // The largest finite one, infinity, NaN, and 1.
        [top - 1, 2 ** m - 1],
        [top, 0],
        [top, odd],
        [bias, 0],
      ] as const;
      const [exponent, rest] = codes[pick] ?? [0, 0];
      return compose(sign, exponent, rest);
    }
    default:
      return kind satisfies never;
  }
}

/** Input registers of all cases of a class, as words in the kernel's order. */
export function inputsOf(form: MmaForm, kind: InputClass): Readonly<Record<"a" | "b" | "c", Uint32Array>> {
  const bits = bitSource(inputClasses.indexOf(kind) * 1000 + form.name.length * 7 + 1);
  const operand = (name: "a" | "b" | "c", type: string, registers: number): Uint32Array => {
    const width =
      type === "s32"
        ? 32
        : type === "f64"
          ? 64
          : fields[type] === undefined
            ? Number(type.slice(1))
            : widthOf(type);
    const words = width === 64 ? 2 : 1;
    const out = new Uint32Array(casesPerClass * registers * 32 * words);
    for (let at = 0; at < out.length; at += words) {
      let word = 0;
      for (let have = 0; have < 32; have += width) {
        const [low, high] = element(type, kind, name, bits);
        word |= low << have;
        if (words === 2) out[at + 1] = high;
      }
      out[at] = word;
    }
    return out;
  };
  const [, na, nb, nc] = form.counts;
  return { a: operand("a", form.a, na), b: operand("b", form.b, nb), c: operand("c", form.c, nc) };
}

const widthOf = (type: string): number => {
  const [e, m] = fields[type] ?? [0, 31];
  return e + m + 1;
};

/** Words that a class's cases write. */
export const outputWords = (form: MmaForm): number =>
  casesPerClass * form.counts[0] * 32 * (form.a === "f64" ? 2 : 1);
