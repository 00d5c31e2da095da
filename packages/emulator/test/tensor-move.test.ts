/** Loads and stores of tensor memory in every shape, against the layouts of CuTe's copy traits and against one another. */
import { describe, expect, test } from "vitest";
import { type TensorShapeName, tensorShape, tensorShapes } from "../src/isa/tensor-shapes.ts";
import { clean, orders } from "./support.ts";
import { fill, runTensor, save, vector } from "./tensor-memory.ts";

const names = Object.keys(tensorShapes) as TensorShapeName[];

/** Extents and strides, first extent fastest. */
type Layout = readonly (readonly [extent: number, stride: number])[];
const at = (layout: Layout, index: number): number => {
  let rest = index;
  let sum = 0;
  for (const [extent, stride] of layout) {
    sum += (rest % extent) * stride;
    rest = Math.floor(rest / extent);
  }
  return sum;
};

/**
 * What CuTe says of the same instructions: thread and value to bit, where each row of tensor memory follows the one before.
 * `x1` and `x2` of each shape; 16x32bx2 with the second half right behind the first.
 */
const cute: Readonly<Record<TensorShapeName, readonly { thread: Layout; value: Layout; rowBits: number }[]>> =
  {
    "32x32b": [
      { thread: [[32, 32]], value: [[32, 1]], rowBits: 32 },
      { thread: [[32, 64]], value: [[64, 1]], rowBits: 64 },
    ],
    "16x32bx2": [
      {
        thread: [
          [16, 64],
          [2, 32],
        ],
        value: [[32, 1]],
        rowBits: 64,
      },
      {
        thread: [
          [16, 128],
          [2, 64],
        ],
        value: [[64, 1]],
        rowBits: 128,
      },
    ],
    "16x64b": [
      {
        thread: [
          [2, 512],
          [2, 32],
          [8, 64],
        ],
        value: [[32, 1]],
        rowBits: 64,
      },
      {
        thread: [
          [2, 1024],
          [2, 32],
          [8, 128],
        ],
        value: [
          [32, 1],
          [2, 64],
        ],
        rowBits: 128,
      },
    ],
    "16x128b": [
      {
        thread: [
          [4, 32],
          [8, 128],
        ],
        value: [
          [32, 1],
          [2, 1024],
        ],
        rowBits: 128,
      },
      {
        thread: [
          [4, 32],
          [8, 256],
        ],
        value: [
          [32, 1],
          [2, 2048],
          [2, 128],
        ],
        rowBits: 256,
      },
    ],
    "16x256b": [
      {
        thread: [
          [4, 64],
          [8, 256],
        ],
        value: [
          [64, 1],
          [2, 2048],
        ],
        rowBits: 256,
      },
      {
        thread: [
          [4, 64],
          [8, 512],
        ],
        value: [
          [64, 1],
          [2, 4096],
          [2, 256],
        ],
        rowBits: 512,
      },
    ],
  };

describe("layouts", () => {
  test.each(names)("%s: every word of the access is in one register of one lane", (name) => {
    const shape = tensorShape(name);
    for (const repeat of [1, 2, 8, 32]) {
      const seen = new Set<string>();
      for (let l = 0; l < 32; l++)
        for (let r = 0; r < repeat * shape.registers; r++) {
          const { row, column } = shape.place(l, r);
          expect(row).toBeLessThan(shape.rows);
          expect(column).toBeLessThan(repeat * shape.columns);
          seen.add(`${shape.halves ? l >> 4 : 0}/${row}/${column}`);
        }
      expect(seen.size).toBe(32 * repeat * shape.registers);
      expect(seen.size).toBe(shape.rows * repeat * shape.columns * (shape.halves ? 2 : 1));
    }
  });

  test.each(names)("%s: CuTe's traits", (name) => {
    const shape = tensorShape(name);
    cute[name].forEach(({ thread, value, rowBits }, k) => {
      const repeat = k + 1;
      for (let l = 0; l < 32; l++)
        for (let r = 0; r < repeat * shape.registers; r++) {
          const bit = at(thread, l) + at(value, 32 * r);
          const { row, column } = shape.place(l, r);
          const half = shape.halves && l >= 16 ? repeat : 0;
          expect([Math.floor(bit / rowBits), (bit % rowBits) / 32]).toEqual([row, column + half]);
        }
    });
  });
});

/** All forms with at most 128 registers and 128 columns. */
const forms = names.flatMap((name) => {
  const { registers, columns } = tensorShape(name);
  return [1, 2, 4, 8, 16, 32, 64, 128].flatMap((repeat) =>
    repeat * registers <= 128 && repeat * columns <= 128 ? [{ name, repeat }] : [],
  );
});
/** Column at which the upper half of a warp begins in .16x32bx2. */
const half = 17;
const suffix = (name: TensorShapeName): string => (tensorShape(name).halves ? `, ${half}` : "");

/** Where register r of a thread is: lane << 16 | column. */
function place(name: TensorShapeName, thread: number, r: number, upper: boolean, step = 1): number {
  const shape = tensorShape(name);
  const { row, column } = shape.place(thread & 31, r);
  const lane = (thread & ~31) + row + (upper ? 16 : 0);
  const offset = shape.halves && (thread & 31) >= 16 ? half : 0;
  return (lane << 16) | (column * step + offset);
}

describe("tcgen05.ld and st", () => {
  test.each(forms)("ld $name.x$repeat", ({ name, repeat }) => {
    const { rows, registers } = tensorShape(name);
    const count = repeat * registers;
    const columns = tensorShape(name).halves ? 256 : 128;
    for (const upper of rows === 16 ? [false, true] : [false]) {
      const { report, out } = runTensor(
        {
          columns,
          body: `${fill(128)} ${columns > 128 ? fill(128, 128) : ""}
            add.u32 %r0, %tw, ${upper ? 16 << 16 : 0};
            tcgen05.ld.sync.aligned.${name}.x${repeat}.b32 ${vector("v", count)}, [%r0]${suffix(name)};
            tcgen05.wait::ld.sync.aligned; ${save(count)}`,
        },
        128 * count,
        undefined,
        { order: upper ? "lazy" : "random", seed: repeat },
      );
      clean(report);
      const want = Array.from({ length: 128 * count }, (_, i) =>
        place(name, Math.floor(i / count), i % count, upper),
      );
      expect([...out]).toEqual(want);
    }
  });

  test.each(forms.filter(({ repeat }) => repeat <= 16))("st $name.x$repeat", ({ name, repeat }) => {
    const { registers, halves } = tensorShape(name);
    const count = repeat * registers;
    const read = halves ? 64 : 128;
    const { report, out } = runTensor(
      {
        body: `${fill(128)}
          shl.b32 %r1, %t, 16; or.b32 %r1, %r1, 0x8000;
          ${Array.from({ length: count }, (_, k) => `add.u32 %v${k}, %r1, ${k};`).join(" ")}
          tcgen05.st.sync.aligned.${name}.x${repeat}.b32 [%tw]${suffix(name)}, ${vector("v", count)};
          tcgen05.wait::st.sync.aligned;
          tcgen05.ld.sync.aligned.32x32b.x${read}.b32 ${vector("u", read)}, [%tw];
          tcgen05.wait::ld.sync.aligned; ${save(read, "u")}`,
      },
      128 * read,
    );
    clean(report);
    const want = Array.from({ length: 128 * read }, (_, i) => (Math.floor(i / read) << 16) | (i % read));
    for (let thread = 0; thread < 128; thread++)
      for (let r = 0; r < count; r++) {
        const to = place(name, thread, r, false);
        want[(to >>> 16) * read + (to & 0xffff)] = (thread << 16) | 0x8000 | r;
      }
    expect([...out]).toEqual(want.map((x) => x | 0));
  });

  test.each(["32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"] as const)(
    "%s: pack::16b and unpack::16b take the low halves of neighbouring columns",
    (name) => {
      const { registers } = tensorShape(name);
      const count = 4 * registers;
      const { report, out } = runTensor(
        {
          body: `${fill(128)}
            tcgen05.ld.sync.aligned.${name}.x4.pack::16b.b32 ${vector("v", count)}, [%tw]${suffix(name)};
            tcgen05.wait::ld.sync.aligned; ${save(count)}
            tcgen05.st.sync.aligned.${name}.x4.unpack::16b.b32 [%tw]${suffix(name)}, ${vector("v", count)};
            tcgen05.wait::st.sync.aligned;
            tcgen05.ld.sync.aligned.${name}.x4.pack::16b.b32 ${vector("u", count)}, [%tw]${suffix(name)};
            tcgen05.wait::ld.sync.aligned;
            mov.u32 %r2, 0; ${Array.from({ length: count }, (_, k) => `xor.b32 %r3, %u${k}, %v${k}; or.b32 %r2, %r2, %r3;`).join(" ")}
            mul.wide.u32 %d1, %t, 4; add.u64 %d1, %out, %d1; st.global.u32 [%d1+${512 * count}], %r2;`,
        },
        128 * count + 128,
      );
      clean(report);
      for (let i = 0; i < 128 * count; i++) {
        const column = place(name, Math.floor(i / count), i % count, false, 2) & 0xffff;
        expect(out[i]).toBe(column | ((column + 1) << 16));
      }
      expect([...out.slice(128 * count)]).toEqual(new Array(128).fill(0));
    },
  );

  test("ld.red: the least and largest of a lane's values", () => {
    const reduce = (op: string, extra = ""): readonly number[] => {
      const { report, out } = runTensor(
        {
          target: "sm_103a",
          body: `mov.b32 %u0, 0x3f800000; mov.b32 %u1, 0xc0000000; mov.b32 %u2, ${extra === "" ? "0x80000000" : "0x7fc00000"}; mov.b32 %u3, 0x00000000;
            tcgen05.st.sync.aligned.32x32b.x4.b32 [%tw], ${vector("u", 4)}; tcgen05.wait::st.sync.aligned;
            tcgen05.ld.red.sync.aligned.32x32b.x4.${op} ${vector("v", 4)}, %v4, [%tw];
            tcgen05.wait::ld.sync.aligned; ${save(5)}`,
        },
        640,
      );
      clean(report);
      expect([...out.slice(0, 5)]).toEqual([...out.slice(635)]);
      return [out[4] ?? 0];
    };
    expect(reduce("max.f32")).toEqual([0x3f800000]);
    expect(reduce("min.f32")).toEqual([0xc0000000 | 0]);
    expect(reduce("max.abs.f32")).toEqual([0x40000000]);
    expect(reduce("min.abs.f32")).toEqual([0]);
    expect(reduce("max.u32")).toEqual([0xc0000000 | 0]);
    expect(reduce("min.s32")).toEqual([0x80000000 | 0]);
    expect(reduce("min.f32", "nan")).toEqual([0xc0000000 | 0]);
    expect(reduce("min.NaN.f32", "nan")).toEqual([0x7fffffff]);
  });

  test.each(orders)("results are there at the wait, not before it is due: %s", (order) => {
    const { report, out } = runTensor(
      {
        body: `${fill(4)}
          tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v0, %v1}, [%tw];
          tcgen05.ld.sync.aligned.32x32b.x2.b32 {%v2, %v3}, [%tw+2];
          tcgen05.wait::ld.sync.aligned; ${save(4)}`,
      },
      512,
      undefined,
      { order },
    );
    clean(report);
    expect(out[4 * 77 + 3]).toBe((77 << 16) | 3);
  });
});

test("tcgen05.ld and st take .f32 registers, as nvcc declares accumulators", () => {
  const floats = vector("x", 4);
  const { report, out } = runTensor(
    {
      body: `.reg .f32 %x<4>; ${fill(4)} tcgen05.ld.sync.aligned.32x32b.x4.b32 ${floats}, [%tw];
        tcgen05.wait::ld.sync.aligned; tcgen05.st.sync.aligned.32x32b.x4.b32 [%tw+4], ${floats}; tcgen05.wait::st.sync.aligned;
        tcgen05.ld.sync.aligned.32x32b.x4.b32 ${vector("v", 4)}, [%tw+4]; tcgen05.wait::ld.sync.aligned; ${save(4)}`,
    },
    512,
  );
  clean(report);
  expect(out).toEqual(Int32Array.from({ length: 512 }, (_, k) => ((k >> 2) << 16) | (k & 3)));
});

test("a warp that names lane 0 reaches its own quarter, and is told", () => {
  const { report, out } = runTensor(
    {
      body: `${fill(1)} tcgen05.ld.sync.aligned.32x32b.x1.b32 %v0, [%ta]; tcgen05.wait::ld.sync.aligned; ${save(1)}`,
    },
    128,
  );
  expect(report.findings.map(({ rule, count }) => [rule, count])).toEqual([["H082", 3]]);
  expect(out).toEqual(Int32Array.from({ length: 128 }, (_, k) => k << 16));
});
