import { fc, test as property } from "@fast-check/vitest";
import { expect, test } from "vitest";
import { coalesce, compose, divide, invert, select } from "../../src/layout/algebra.ts";
import {
  byteOffset,
  colMajor,
  coordinateOf,
  cosize,
  elementOffset,
  footprint,
  isBijective,
  isInjective,
  linearOffset,
  makeLayout,
  offsetAt,
  rowMajor,
  sizeOfLayout,
  vectorLength,
  withPadding,
  withSwizzle,
} from "../../src/layout/layout.ts";
import {
  applySwizzle,
  swizzleFault,
  swizzlePeriod,
  swizzleSpan,
  tensorSwizzleName,
  tensorSwizzles,
} from "../../src/layout/swizzle.ts";
import { parseLayout, printLayout } from "../../src/layout/text.ts";
import type { Layout, Swizzle } from "../../src/layout/types.ts";

const anySwizzle = fc
  .record({
    bits: fc.integer({ min: 1, max: 5 }),
    base: fc.integer({ min: 0, max: 5 }),
    extra: fc.integer({ min: 0, max: 4 }),
  })
  .map(({ bits, base, extra }): Swizzle => ({ bits, base, shift: bits + extra }));
const extent = fc.integer({ min: 1, max: 8 });
const shapes = fc.array(extent, { minLength: 1, maxLength: 3 });
/** Compact layouts: a permutation of axes decides which runs fastest. */
const compact = fc
  .record({ shape: shapes, keys: fc.array(fc.nat(), { minLength: 3, maxLength: 3 }) })
  .map(({ shape, keys }): Layout => {
    const order = shape.map((_, axis) => axis).sort((x, y) => (keys[x] ?? 0) - (keys[y] ?? 0) || x - y);
    const stride = shape.map(() => 1);
    let step = 1;
    for (const axis of order) {
      stride[axis] = step;
      step *= shape[axis] ?? 1;
    }
    return makeLayout(shape, stride);
  });
const anyLayout = fc
  .record({
    shape: shapes,
    strides: fc.array(fc.integer({ min: 0, max: 40 }), { minLength: 3, maxLength: 3 }),
    swizzle: fc.option(anySwizzle),
  })
  .map(({ shape, strides, swizzle }) => makeLayout(shape, strides.slice(0, shape.length), swizzle));

property.prop([anySwizzle])("a swizzle is an involution on its period, and leaves no span", (swizzle) => {
  expect(swizzleFault(swizzle)).toBeNull();
  const period = Math.min(swizzlePeriod(swizzle), 2 ** 14);
  const span = swizzleSpan(swizzle);
  const image = new Set<number>();
  for (let offset = 0; offset < period; offset++) {
    const moved = applySwizzle(swizzle, offset);
    image.add(moved);
    if (applySwizzle(swizzle, moved) !== offset) expect.fail(`${offset} -> ${moved} does not come back`);
    if (Math.floor(moved / span) !== Math.floor(offset / span)) expect.fail(`${offset} left its block`);
    if (applySwizzle(swizzle, offset + swizzlePeriod(swizzle)) !== moved + swizzlePeriod(swizzle))
      expect.fail("not periodic");
  }
  expect(image.size).toBe(period);
});

test("the 128-byte swizzle xors the 16-byte chunk with the row", () => {
  const chunk = (row: number, column: number) =>
    applySwizzle(tensorSwizzles["128B"], row * 128 + column * 16);
  for (let row = 0; row < 8; row++)
    for (let c = 0; c < 8; c++) expect(chunk(row, c)).toBe(row * 128 + (c ^ row) * 16);
  for (const name of ["none", "32B", "64B", "128B"] as const)
    expect(tensorSwizzleName(tensorSwizzles[name])).toBe(name);
  expect(tensorSwizzleName({ bits: 3, base: 3, shift: 3 })).toBeNull();
});

test("what is no swizzle", () => {
  expect(swizzleFault({ bits: 3, base: 4, shift: 2 })).toContain("at least bits 3");
  expect(swizzleFault({ bits: 0, base: 4, shift: 2 })).toContain("leave it out");
  expect(swizzleFault({ bits: 1.5, base: 4, shift: 2 })).toContain("non-negative integer");
  expect(swizzleFault({ bits: 8, base: 16, shift: 8 })).toContain("31-bit");
});

property.prop([anyLayout])("parse(print(x)) = x", (layout) => {
  expect(parseLayout(printLayout(layout))).toEqual({ ok: true, value: layout });
});

test("layout text: both bracket styles, and refusals that say what to write", () => {
  expect(printLayout({ shape: [128, 8], stride: [1, 132], swizzle: tensorSwizzles["128B"] })).toBe(
    "(128,8):(1,132) swizzle<3,4,3>",
  );
  expect(parseLayout(" ( 2 , 3 ):(3,1) swizzle < 2, 4,3 >")).toEqual({
    ok: true,
    value: { shape: [2, 3], stride: [3, 1], swizzle: tensorSwizzles["64B"] },
  });
  for (const [text, message] of [
    ["(2,3)", "is not a layout"],
    ["(2,3):(1)", "2 extents but 1 strides"],
    ["(0,3):(1,1)", "an extent of 0"],
    ["(2,3):(1,2) swizzle<3,4,1>", "at least bits"],
    ["(2,3):(1,2) swizzle<3,4,3> x", "is not a layout"],
    ["(2,3):(1,2) swizzle(3, 4, 3)", "is not a layout"],
  ] as const) {
    const parsed = parseLayout(text);
    expect(parsed.ok ? "" : parsed.error[0]?.message).toContain(message);
  }
});

property.prop([anyLayout])("coalesce keeps the function", (layout) => {
  const merged = coalesce(layout);
  expect(sizeOfLayout(merged)).toBe(sizeOfLayout(layout));
  for (let i = 0; i < sizeOfLayout(layout); i++) expect(offsetAt(merged, i)).toBe(offsetAt(layout, i));
});

property.prop([anyLayout, anyLayout])("compose(f, g)(i) = f(g(i)) wherever it answers", (outer, inner) => {
  const composed = compose(outer, { ...inner, swizzle: null });
  if (composed === null) return;
  expect(sizeOfLayout(composed)).toBe(sizeOfLayout(inner));
  expect(composed.swizzle).toEqual(outer.swizzle);
  for (let i = 0; i < sizeOfLayout(inner); i++)
    expect(offsetAt(composed, i)).toBe(offsetAt(outer, offsetAt(inner, i)));
});

property.prop([compact])("composition with the identity, and with the inverse", (layout) => {
  const size = sizeOfLayout(layout);
  const identity = makeLayout([size], [1]);
  const same = compose(layout, identity);
  for (let i = 0; i < size; i++) expect(same && offsetAt(same, i)).toBe(offsetAt(layout, i));
  const inverse = invert(layout);
  expect(inverse).not.toBeNull();
  if (inverse === null) return;
  for (let i = 0; i < size; i++) {
    expect(offsetAt(inverse, offsetAt(layout, i))).toBe(i);
    expect(offsetAt(layout, offsetAt(inverse, i))).toBe(i);
  }
  const round = compose(layout, inverse);
  for (let i = 0; i < size; i++) expect(round && offsetAt(round, i)).toBe(i);
  expect(coalesce(round ?? layout)).toEqual(coalesce(identity));
});

test("composition answers what CuTe's does, and null where no layout can", () => {
  // CuTe's documentation: (6,2):(8,2) o (4,3):(3,1) = ((2,2),3):((24,2),8).
  const cute = compose(makeLayout([6, 2], [8, 2]), makeLayout([4, 3], [3, 1]));
  expect(cute).toEqual(makeLayout([2, 2, 3], [24, 2, 8]));
  expect(compose(makeLayout([10, 2], [16, 4]), makeLayout([5, 4], [1, 5]))).toEqual(
    makeLayout([5, 2, 2], [16, 80, 4]),
  );
  expect(compose(makeLayout([4, 4], [4, 1]), makeLayout([3], [3]))).toBeNull();
  // Axis by axis fine, together the digits carry: 1 + 1 = 2 is the second column.
  expect(compose(makeLayout([2, 2], [1, 10]), makeLayout([2, 2], [1, 1]))).toBeNull();
  expect(compose(makeLayout([4], [1]), makeLayout([8], [1]))).toBeNull();
});

property.prop([
  fc.record({ t0: extent, t1: extent, n0: extent, n1: extent, ld: fc.nat(9), row: fc.boolean() }),
])("divide: place in the tile and tile number add up to the coordinate", ({ t0, t1, n0, n1, ld, row }) => {
  const shape = [t0 * n0, t1 * n1] as const;
  const layout = withPadding(shape, row ? 1 : 0, ld);
  const tiles = divide(layout, [t0, t1]);
  expect(tiles?.shape).toEqual([t0, t1, n0, n1]);
  if (tiles === null) return;
  for (let i = 0; i < sizeOfLayout(tiles); i++) {
    const [a = 0, b = 0, x = 0, y = 0] = coordinateOf(tiles.shape, i);
    expect(linearOffset(tiles, [a, b, x, y])).toBe(linearOffset(layout, [x * t0 + a, y * t1 + b]));
  }
  const inner = select(tiles, [0, 1]);
  expect(inner.stride).toEqual(layout.stride);
});

test("divide refuses what does not divide", () => {
  expect(divide(rowMajor([6, 4]), [4, 4])).toBeNull();
  expect(divide(rowMajor([6, 4]), [3])).toBeNull();
});

property.prop([anyLayout])("injective and bijective mean what they say", (layout) => {
  const offsets = new Set<number>();
  for (let i = 0; i < sizeOfLayout(layout); i++) offsets.add(offsetAt(layout, i));
  const injective = offsets.size === sizeOfLayout(layout);
  expect(isInjective(layout)).toBe(injective);
  expect(isBijective(layout)).toBe(injective && Math.max(...offsets) === sizeOfLayout(layout) - 1);
  expect(cosize(layout)).toBe(Math.max(...offsets) + 1);
  if (!isBijective(layout)) expect(invert(layout)).toBeNull();
});

property.prop([anyLayout, fc.constantFrom(1, 2, 4)])("byte offsets stay in the footprint", (layout, size) => {
  // A swizzle finer than an element would split it.
  fc.pre(layout.swizzle === null || 2 ** layout.swizzle.base >= size);
  for (let i = 0; i < sizeOfLayout(layout); i++) {
    const coordinate = coordinateOf(layout.shape, i);
    const offset = byteOffset(layout, coordinate, size);
    expect(offset + size).toBeLessThanOrEqual(footprint(layout, size));
    expect(elementOffset(layout, coordinate, size)).toBe(offset / size);
  }
});

property.prop([anyLayout, fc.nat(2), fc.constantFrom(1, 2, 4, 8), fc.constantFrom(4, 8, 16, 64)])(
  "vectors are contiguous and aligned, and no longer ones are",
  (layout, someAxis, size, baseAlign) => {
    const axis = someAxis % layout.shape.length;
    const holds = (length: number): boolean => {
      if ((layout.shape[axis] ?? 0) % length !== 0 || length * size > 16 || baseAlign % (length * size) !== 0)
        return false;
      for (let i = 0; i < sizeOfLayout(layout); i++) {
        const coordinate = coordinateOf(layout.shape, i);
        const place = (coordinate[axis] ?? 0) % length;
        const start = coordinate.with(axis, (coordinate[axis] ?? 0) - place);
        const first = byteOffset(layout, start, size);
        if (first % (length * size) !== 0) return false;
        if (byteOffset(layout, coordinate, size) !== first + place * size) return false;
      }
      return true;
    };
    fc.pre(layout.swizzle === null || 2 ** layout.swizzle.base >= size);
    const length = vectorLength(layout, axis, size, { baseAlign });
    if (length > 1) expect(holds(length)).toBe(true);
    // The longest, unless the swizzle happens not to move anything in so small a tile.
    if (layout.swizzle === null && length > 1) expect(holds(length * 2)).toBe(false);
  },
);

test("vector lengths of usual tiles", () => {
  expect(vectorLength(rowMajor([128, 32]), 1, 4)).toBe(4);
  expect(vectorLength(rowMajor([128, 32], 33), 1, 4)).toBe(1);
  expect(vectorLength(rowMajor([128, 32], 34), 1, 4)).toBe(2);
  expect(vectorLength(rowMajor([128, 32]), 0, 4)).toBe(1);
  expect(vectorLength(colMajor([128, 8], 132), 0, 4)).toBe(4);
  expect(vectorLength(rowMajor([128, 64]), 1, 2)).toBe(8);
  expect(vectorLength(withSwizzle(rowMajor([128, 64]), { bits: 3, base: 3, shift: 4 }), 1, 2)).toBe(4);
  expect(vectorLength(rowMajor([128, 6]), 1, 4)).toBe(2);
  expect(vectorLength(rowMajor([128, 32]), 1, 4, { baseAlign: 8 })).toBe(2);
});

test("malformed layouts are bugs", () => {
  expect(() => makeLayout([2, 3], [1])).toThrow("differ in rank");
  expect(() => makeLayout([2, 0], [1, 1])).toThrow("not a layout");
  expect(() => linearOffset(rowMajor([2, 2]), [1])).toThrow("no axis 1");
});
