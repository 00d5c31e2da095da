/** Copies through im2col maps against a convolution's own loops: which input pixel an output pixel meets under one tap of the filter. */
import type { TensorMapSpec } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, machine, orders, value } from "./support.ts";

interface Convolution {
  readonly name: string;
  /** Images, and extents of the input in its spatial dimensions, the innermost first. */
  readonly images: number;
  readonly extent: readonly number[];
  readonly channels: number;
  /** In every spatial dimension. */
  readonly taps: number;
  readonly pad: number;
  readonly stride: number;
  readonly dilation: number;
  /** Of a copy. */
  readonly box: readonly [channels: number, pixels: number];
  readonly swizzle?: "64B";
}

const convolutions: readonly Convolution[] = [
  {
    name: "one dimension",
    ...{ images: 3, extent: [10], channels: 16, taps: 3, pad: 1, stride: 1, dilation: 1, box: [8, 16] },
  },
  {
    name: "two dimensions, over the edges of rows and images",
    ...{ images: 2, extent: [7, 5], channels: 8, taps: 3, pad: 1, stride: 1, dilation: 1, box: [8, 48] },
  },
  {
    name: "strides and dilation",
    ...{ images: 2, extent: [9, 8], channels: 16, taps: 3, pad: 2, stride: 2, dilation: 2, box: [16, 24] },
  },
  {
    name: "no padding, swizzled",
    ...{ images: 1, extent: [8, 8], channels: 32, taps: 2, pad: 0, stride: 1, dilation: 1, box: [32, 32] },
    swizzle: "64B",
  },
  {
    name: "three dimensions",
    ...{ images: 2, extent: [4, 3, 3], channels: 8, taps: 2, pad: 1, stride: 1, dilation: 1, box: [8, 64] },
  },
];

/** Output pixels in order, the innermost dimension first and the images last, each with its place in every dimension. */
function outputs({
  images,
  extent,
  taps,
  pad,
  stride,
  dilation,
}: Convolution): readonly (readonly number[])[] {
  const counts = extent.map((n) => Math.floor((n + 2 * pad - (taps - 1) * dilation - 1) / stride) + 1);
  let places: (readonly number[])[] = [[]];
  for (const n of [...counts, images])
    places = Array.from({ length: n }, (_, x) => places.map((place) => [...place, x])).flat();
  return places;
}

const shared = 8192;
const text = (
  rank: number,
  coordinates: readonly number[],
  offsets: readonly number[],
  bytes: number,
  mode: string,
): string => {
  const place = `{${coordinates.map((_, k) => `%c${k}`).join(", ")}}`;
  const copy =
    mode === "load"
      ? `mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], ${bytes};
cp.async.bulk.tensor.${rank}d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [sm], [%map, ${place}], [bar], {${offsets.map((_, k) => `%o${k}`).join(", ")}};
W: mbarrier.try_wait.parity.shared::cta.b64 %p, [bar], 0; @!%p bra W;
L: add.s32 %at, %sm, %i; ld.shared.b32 %v, [%at]; cvt.u64.u32 %d, %i; add.s64 %d, %d, %out; st.global.b32 [%d], %v;
add.s32 %i, %i, 4; setp.lt.u32 %p, %i, ${bytes}; @%p bra L;`
      : `L: add.s32 %at, %sm, %i; add.s32 %v, %i, 1; st.shared.b32 [%at], %v; add.s32 %i, %i, 4; setp.lt.u32 %p, %i, ${bytes}; @%p bra L;
fence.proxy.async.shared::cta;
cp.async.bulk.tensor.${rank}d.global.shared::cta.im2col_no_offs.bulk_group [%map, ${place}], [sm];
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;`;
  return `.version 8.6
.target sm_90a
.address_size 64
.shared .align 1024 .b8 sm[${shared}];
.shared .align 8 .b64 bar;
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out)
{
.reg .pred %p; .reg .b32 %sm, %at, %i, %v, %c<5>; .reg .b16 %o<3>; .reg .b64 %map, %out, %d;
mov.b64 %map, map; cvta.param.u64 %map, %map; ld.param.u64 %out, [out]; mov.b32 %sm, sm; mov.b32 %i, 0;
${coordinates.map((x, k) => `mov.b32 %c${k}, ${x};`).join(" ")}
${offsets.map((x, k) => `mov.b16 %o${k}, ${x};`).join(" ")}
mbarrier.init.shared::cta.b64 [bar], 1; fence.mbarrier_init.release.cluster;
${copy}
ret;
}
`;
};

function mapOf(convolution: Convolution, address: bigint): TensorMapSpec {
  const { images, extent, channels, taps, pad, stride, dilation, box, swizzle } = convolution;
  const dims = [channels, ...extent, images];
  return {
    ...{
      dtype: "u16",
      address,
      dims,
      box,
      interleave: "none",
      swizzle: swizzle ?? "none",
      l2: "none",
      fill: "zero",
    },
    strides: dims.slice(0, -1).map((_, k) => dims.slice(0, k + 1).reduce((n, x) => n * x, 2)),
    elementStrides: [1, ...extent.map(() => stride), 1],
    im2col: {
      lower: extent.map(() => -pad),
      upper: extent.map(() => pad - (taps - 1) * dilation),
    },
  };
}

/** Every input value once: its number. */
const inputs = ({ images, extent, channels }: Convolution): Uint16Array =>
  Uint16Array.from({ length: extent.reduce((n, x) => n * x, images * channels) }, (_, k) => k + 1);

describe.each(convolutions)("$name", (convolution) => {
  const { images, extent, channels, taps, pad, stride, dilation, box } = convolution;
  const pixels = outputs(convolution);
  const bytes = box[0] * box[1] * 2;

  test("loads what each tap of the filter meets", () => {
    // The first copy, one from the middle, and one that ends behind the last image.
    for (const first of [0, Math.floor(pixels.length / 3), pixels.length - 5])
      for (let tap = 0; tap < taps ** extent.length; tap++) {
        const steps = extent.map((_, k) => Math.floor(tap / taps ** k) % taps);
        const start = pixels[first] ?? [];
        const coordinates = [
          channels - box[0],
          ...extent.map((_, k) => (start[k] ?? 0) * stride - pad),
          start.at(-1) ?? 0,
        ];
        const offsets = steps.map((x) => x * dilation);
        const device = machine(text(extent.length + 2, coordinates, offsets, bytes, "load"));
        const input = device.put(inputs(convolution));
        const map = value(device.emulator.encodeTensorMap(mapOf(convolution, input)));
        const out = device.blank(bytes);
        clean(device.launch("k", 1, 1, [map, out], { order: orders[tap % orders.length] ?? "eager" }));
        const want = new Uint16Array(bytes / 2);
        for (let row = 0; row < box[1]; row++) {
          const place = pixels[first + row];
          if (place === undefined) continue;
          let number = place.at(-1) ?? 0;
          let inside = number < images;
          for (let k = extent.length - 1; k >= 0; k--) {
            const x = (place[k] ?? 0) * stride - pad + (offsets[k] ?? 0);
            if (x < 0 || x >= (extent[k] ?? 0)) inside = false;
            number = number * (extent[k] ?? 1) + x;
          }
          for (let c = 0; inside && c < box[0]; c++) {
            const byte = row * box[0] * 2 + c * 2;
            // 64-byte rows: bits 7 and 8 of an address are XORed into bits 4 and 5.
            const at = convolution.swizzle === undefined ? byte : byte ^ ((byte >> 3) & 0x30);
            want[at / 2] = number * channels + channels - box[0] + c + 1;
          }
        }
        expect(device.u16(out, bytes / 2), `from ${first}, tap ${steps}`).toEqual(want);
      }
  });
});

test("stores go to the pixels of the map, and nowhere else", () => {
  const convolution = convolutions[1] as Convolution;
  const plain = { ...convolution, taps: 1, pad: 0 };
  const device = machine(text(4, [0, 3, 1, 1], [], plain.box[0] * plain.box[1] * 2, "store"));
  const input = device.put(inputs(plain).fill(0));
  const map = value(device.emulator.encodeTensorMap(mapOf(plain, input)));
  clean(device.launch("k", 1, 1, [map, 0n]));
  const total = inputs(plain).length;
  const first = ((1 * 5 + 1) * 7 + 3) * 8;
  const expected = new Uint16Array(total);
  // Words hold their byte's number and 1; those behind the last image are dropped.
  for (let k = 0; first + k < total && k < 8 * 48; k++) expected[first + k] = k % 2 === 0 ? 2 * k + 1 : 0;
  expect(device.u16(input, total)).toEqual(expected);
});

describe("what does not go together", () => {
  const convolution = convolutions[1] as Convolution;
  const rules = (mode: "im2col" | "tile") => {
    const im2col = text(4, [0, 0, 0, 0], [0, 0], 768, "load");
    const device = machine(
      mode === "im2col"
        ? im2col
        : im2col.replace("global.im2col.", "global.tile.").replace(/, \{%o[^}]*\};/, ";"),
    );
    const input = device.put(inputs(convolution));
    const spec = mapOf(convolution, input);
    const { im2col: _, ...tiled } = { ...spec, box: [8, 6, 2, 1] };
    const map = value(device.emulator.encodeTensorMap(mode === "im2col" ? tiled : spec));
    return device.launch("k", 1, 1, [map, device.blank(768)]).findings.map(({ rule }) => rule);
  };
  test("a copy and a map of different modes", () => {
    expect(rules("im2col")).toEqual(["H051"]);
    expect(rules("tile")).toEqual(["H051"]);
  });

  test("maps that the driver refuses", () => {
    const device = machine(text(4, [0, 0, 0, 0], [0, 0], 768, "load"));
    const spec = mapOf(convolution, 1024n);
    const faults = (change: Partial<TensorMapSpec>): readonly string[] => {
      const encoded = device.emulator.encodeTensorMap({ ...spec, ...change });
      return encoded.ok ? [] : encoded.error.map(({ code, at }) => `${code} ${at}`);
    };
    expect(faults({})).toEqual([]);
    expect(faults({ box: [8, 2000] })).toEqual(["TW1315 tensorMap.box[1]"]);
    expect(faults({ im2col: { lower: [-200, 0], upper: [0, 127] } })).toEqual([
      "TW1315 tensorMap.im2col.lower[0]",
    ]);
    expect(faults({ im2col: { lower: [0], upper: [0, 0] } })).toEqual(["TW1311 tensorMap.im2col.lower"]);
  });
});

describe.each(["w", "w128"] as const)("pixels along one dimension: %s", (wide) => {
  test("pixels, halo, offset, and zeros outside", () => {
    const [width, height, channels, halo, offset] = [140, 3, 32, 2, 1];
    const numbers = Uint16Array.from({ length: width * height * channels }, (_, k) => k + 1);
    const main = wide === "w" ? 24 : 128;
    const groups = wide === "w" ? 1 : 4;
    const rows = main + groups * halo;
    const bytes = rows * channels * 2;
    const mode = wide === "w" ? "im2col::w" : "im2col::w::128";
    const device = machine(
      text(4, [0, -1, 2, 0], [halo, offset], bytes, "load")
        .replace("global.im2col", `global.${mode}`)
        .replace(`sm[${shared}]`, "sm[16384]")
        .replace(/\.target sm_\w+/, ".target sm_100a")
        .replace(/\.version [\d.]+/, ".version 8.8"),
    );
    const address = device.put(numbers);
    const map = value(
      device.emulator.encodeTensorMap({
        ...{ dtype: "u16", address, interleave: "none", swizzle: "64B", l2: "none", fill: "zero" },
        dims: [channels, width, height, 1],
        strides: [channels * 2, width * channels * 2, width * height * channels * 2],
        ...{ box: [channels, 24], elementStrides: [1, 1, 1, 1], im2col: { lower: [-2], upper: [0], wide } },
      }),
    );
    const out = device.blank(bytes);
    clean(device.launch("k", 1, 1, [map, out]));
    const want = new Uint16Array(bytes / 2);
    const per = main / groups;
    for (let row = 0; row < rows; row++) {
      const x = -1 + offset + Math.floor(row / (per + halo)) * per + (row % (per + halo));
      for (let c = 0; x >= 0 && x < width && c < channels; c++) {
        const byte = (row * channels + c) * 2;
        want[(byte ^ ((byte >> 3) & 0x30)) / 2] = (2 * width + x) * channels + c + 1;
      }
    }
    expect(device.u16(out, bytes / 2)).toEqual(want);
  });
});
