/**
 * mma.sync of operands below 8 bits, with and without scale factors, against plain loops over numbers whose sums an f32 holds exactly. Where
 * elements, factors and results lie is written here by formulas; those of the factors were probed on a GeForce RTX of compute capability 12.0.
 */
import { encode, type FloatFormat } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, generator, machine } from "./support.ts";

type Narrow = "e4m3" | "e5m2" | "e3m2" | "e2m3" | "e2m1";

interface Form {
  readonly name: string;
  readonly a: Narrow;
  readonly b: Narrow;
  /** Depth of A as it is stored; of a sparse A half of the product's. */
  readonly k: 32 | 64;
  readonly sparse?: true;
  /** Factors of a row; 0: none. */
  readonly count: 0 | 1 | 2 | 4;
  readonly scale: "ue8m0" | "ue4m3";
  readonly selectors: string;
}

const narrow: readonly Narrow[] = ["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"];
const forms: readonly Form[] = [
  ...narrow.map((a, i): Form => {
    const b = narrow[(i + 2) % narrow.length] ?? "e4m3";
    return { name: `kind::f8f6f4.f32.${a}.${b}.f32`, a, b, k: 32, count: 0, scale: "ue8m0", selectors: "" };
  }),
  ...narrow.map((a, i): Form => {
    const b = narrow[(i + 1) % narrow.length] ?? "e4m3";
    const name = `kind::mxf8f6f4.block_scale.scale_vec::1X.f32.${a}.${b}.f32.ue8m0`;
    return {
      name,
      a,
      b,
      k: 32,
      count: 1,
      scale: "ue8m0",
      selectors: `${i % 4},${i % 2},${(i + 1) % 4},${i % 4}`,
    };
  }),
  ...(["kind::mxf4.block_scale", "kind::mxf4nvf4.block_scale.scale_vec::2X"] as const).map(
    (kind, i): Form => ({
      name: `${kind}.f32.e2m1.e2m1.f32.ue8m0`,
      ...{ a: "e2m1", b: "e2m1", k: 64, count: 2, scale: "ue8m0", selectors: `${2 * i},1,0,${3 - i}` },
    }),
  ),
  {
    name: "kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3",
    ...{ a: "e2m1", b: "e2m1", k: 64, count: 4, scale: "ue4m3", selectors: "0,0,0,2" },
  },
];

/** Of a sparse A: four bits for each chunk, that its first half is stored, or its second. */
const metadata = 0x4e4ee44e;

const sparseForms = forms.filter(({ count }) => count > 0).map((form): Form => ({ ...form, sparse: true }));

/** Of stored column `j` of A the row of B that it meets. */
const meets = ({ a, k, sparse }: Form, j: number): number => {
  if (sparse === undefined) return j;
  const half = a === "e2m1" && k === 64 ? 4 : 2;
  const chunk = Math.floor(j / half);
  return chunk * 2 * half + (((metadata >>> ((4 * chunk) % 32)) & 15) === 4 ? 0 : half) + (j % half);
};

const kernelOf = ({ name, k, count, selectors, sparse }: Form): string => {
  const [byteA, threadA, byteB, threadB] = selectors.split(",");
  const scales = count === 0 ? "" : `, {%s0}, {${byteA}, ${threadA}}, {%s1}, {${byteB}, ${threadB}}`;
  const b = sparse ? [0, 1, 2, 3] : [0, 1];
  const load = (register: string, at: number): string => `ld.global.b32 ${register}, [%in+${128 * at}];`;
  return `.version 8.7
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
.reg .b32 %a<4>, %b<4>, %m, %s<2>, %t; .reg .f32 %c<4>; .reg .b64 %in, %out;
mov.u32 %t, %tid.x;
ld.param.u64 %in, [in]; mad.wide.u32 %in, %t, 4, %in; ld.param.u64 %out, [out]; mad.wide.u32 %out, %t, 4, %out;
${[0, 1, 2, 3].map((r) => load(`%a${r}`, r)).join(" ")}
mov.b32 %m, ${metadata};
${b.map((r) => load(`%b${r}`, 4 + r)).join(" ")}
${[0, 1].map((r) => load(`%s${r}`, 8 + r)).join(" ")}
${[0, 1, 2, 3].map((r) => `mov.f32 %c${r}, 0f3F800000;`).join(" ")}
mma.${sparse ? "sp::ordered_metadata." : ""}sync.aligned.m16n8k${sparse ? 2 * k : k}.row.col.${name} {%c0, %c1, %c2, %c3}, {%a0, %a1, %a2, %a3}, {${b.map((r) => `%b${r}`).join()}}, {%c0, %c1, %c2, %c3}${sparse ? ", %m, 0" : ""}${scales};
${[0, 1, 2, 3].map((r) => `st.global.f32 [%out+${128 * r}], %c${r};`).join(" ")}
ret;
}
`;
};

describe("mma.sync of narrow operands", () => {
  test.each([...forms, ...sparseForms])("$name, sparse: $sparse", (form) => {
    const { a, b, k, count, scale } = form;
    const next = generator(form.name.length);
    const small = (): number => [0, 1, -1, 2, -2, 3, 1.5, -0.5][Math.floor(next() * 8)] ?? 0;
    const deep = form.sparse ? 2 * k : k;
    const matrix = (rows: number, columns: number): readonly (readonly number[])[] =>
      Array.from({ length: rows }, () => Array.from({ length: columns }, small));
    const [left, right] = [matrix(16, k), matrix(8, deep)];
    const factorsOf = (rows: number): readonly (readonly number[])[] =>
      Array.from({ length: rows }, () =>
        Array.from({ length: count }, () => [0.5, 1, 2, 4][Math.floor(next() * 4)] ?? 1),
      );
    const [leftScales, rightScales] = [factorsOf(16), factorsOf(8)];
    const words = new Uint32Array(10 * 32).fill(0);
    const elements = k / 8;
    const spacing = 32 / elements;
    const code = (format: Narrow, x: number): number =>
      encode(format as FloatFormat, x) << (format === "e2m1" && spacing === 8 ? 2 : 0);
    const put = (register: number, lane: number, format: Narrow, at: (p: number) => number): void => {
      let word = 0;
      for (let p = 0; p < elements; p++) word |= code(format, at(p)) << (p * spacing);
      words[register * 32 + lane] = word;
    };
    for (let lane = 0; lane < 32; lane++) {
      const [group, quarter] = [lane >> 2, lane & 3];
      for (let r = 0; r < 4; r++)
        put(r, lane, a, (p) => left[group + 8 * (r & 1)]?.[(quarter + 4 * (r >> 1)) * elements + p] ?? 0);
      for (let r = 0; r < (deep / k) * 2; r++)
        put(4 + r, lane, b, (p) => right[group]?.[(quarter + 4 * r) * elements + p] ?? 0);
    }
    // Lanes and bytes that are not selected hold NaN.
    words.fill(scale === "ue8m0" ? 0xffffffff : 0x7f7f7f7f, 8 * 32);
    const factorCode = (x: number): number => (scale === "ue8m0" ? Math.log2(x) + 127 : encode("e4m3", x));
    const [byteA = 0, threadA = 0, byteB = 0, threadB = 0] = form.selectors.split(",").map(Number);
    const putFactor = (at: number, byte: number, factors: readonly number[]): void => {
      const bytes = new Uint8Array(words.buffer, at * 4, 4);
      factors.forEach((x, i) => {
        bytes[byte + i] = factorCode(x);
      });
    };
    leftScales.forEach((factors, m) => {
      putFactor(8 * 32 + 4 * (m % 8) + 2 * threadA + Math.floor(m / 8), byteA, factors);
    });
    rightScales.forEach((factors, n) => {
      putFactor(9 * 32 + 4 * n + threadB, byteB, factors);
    });
    const device = machine(kernelOf(form));
    const out = device.blank(512);
    clean(device.launch("k", 1, 32, [device.put(words), out]));
    const want = (m: number, n: number): number => {
      let sum = 1;
      for (let i = 0; i < k; i++) {
        const block = Math.floor((i * count) / k);
        const factor = count === 0 ? 1 : (leftScales[m]?.[block] ?? 0) * (rightScales[n]?.[block] ?? 0);
        sum += (left[m]?.[i] ?? 0) * (right[n]?.[meets(form, i)] ?? 0) * factor;
      }
      return sum;
    };
    expect(device.f32(out, 128)).toEqual(
      Float32Array.from({ length: 128 }, (_, at) => {
        const [r, lane] = [at >> 5, at & 31];
        return want((lane >> 2) + 8 * (r >> 1), (lane & 3) * 2 + (r & 1));
      }),
    );
  });
});
