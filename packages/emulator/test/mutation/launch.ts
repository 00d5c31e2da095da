/** How a subject of the mutation suite is launched, as data that a fault may change, and what a launch shows. */
import type { TensorMapSpec } from "@tilewright/core";
import type { LaunchConfig } from "../../src/index.ts";
import { toF16 } from "../../src/numerics/floats.ts";
import { generator, machine, value } from "../support.ts";

type Element = "f32" | "f16" | "bf16";
type BufferName = "a" | "b" | "c";

/** A tensor map without its address: which buffer it describes. */
export type MapRecipe = Omit<TensorMapSpec, "address"> & { readonly of: BufferName };

type Parameter = { readonly map: MapRecipe } | { readonly pointer: BufferName } | number;

/** A GEMM and its launch. A is m by k, row by row; B is n by k with `nk`, k by n with `kn`; C is m by n. */
export interface Launch {
  readonly entry: string;
  readonly shape: readonly [m: number, n: number, k: number];
  readonly input: Element;
  readonly output: Element;
  readonly b: "nk" | "kn";
  readonly grid: readonly [number, number, number];
  readonly block: number;
  readonly cluster?: readonly [number, number, number];
  readonly dynamicSmem: number;
  readonly params: readonly Parameter[];
}

/** What one run showed. */
export interface Outcome {
  /** Rules that reported, once each, in the order in which they did. */
  readonly rules: readonly string[];
  /** The launch ended by itself and C is not the product. */
  readonly wrong: boolean;
  readonly completed: boolean;
  /** The first finding's sentence, for messages of the test. */
  readonly first: string;
}

const word = new Float32Array(1);
const bits = new Uint32Array(word.buffer);

/** Exact for the small integers that are used here. */
function encode(values: Float32Array, element: Element): Float32Array | Uint16Array {
  switch (element) {
    case "f32":
      return values;
    case "f16":
      return Uint16Array.from(values, toF16);
    case "bf16":
      return Uint16Array.from(values, (x) => {
        word[0] = x;
        return (bits[0] ?? 0) >>> 16;
      });
    default:
      return element satisfies never;
  }
}

interface Numbers {
  readonly a: Float32Array | Uint16Array;
  readonly b: Float32Array | Uint16Array;
  readonly c: Float32Array | Uint16Array;
}

const products = new Map<string, Numbers>();

/** Operands of -1, 0 and 1: sums below 128 in every order, exact in all three element types. One set per shape. */
function numbersOf({ shape, input, output, b: layout }: Launch): Numbers {
  const key = JSON.stringify([shape, input, output, layout]);
  const known = products.get(key);
  if (known !== undefined) return known;
  const [m, n, k] = shape;
  const next = generator(17);
  const integers = (count: number): Float32Array =>
    Float32Array.from({ length: count }, () => [-1, 0, 0, 1][Math.floor(next() * 4)] ?? 0);
  const [a, b] = [integers(m * k), integers(n * k)];
  const c = new Float32Array(m * n);
  for (let i = 0; i < m; i++)
    for (let q = 0; q < k; q++) {
      const x = a[i * k + q] ?? 0;
      if (x !== 0)
        for (let j = 0; j < n; j++)
          c[i * n + j] = (c[i * n + j] ?? 0) + x * ((layout === "kn" ? b[q * n + j] : b[j * k + q]) ?? 0);
    }
  const made = { a: encode(a, input), b: encode(b, input), c: encode(c, output) };
  products.set(key, made);
  return made;
}

const bytes = (data: Float32Array | Uint16Array): Uint8Array =>
  new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/** A loaded text that can be launched again and again. Throws an Error with the diagnostics where it cannot be launched at all. */
export function launcher(text: string, launch: Launch): (config: Partial<LaunchConfig>) => Outcome {
  const device = machine(text);
  const numbers = numbersOf(launch);
  const buffers = { a: device.put(numbers.a), b: device.put(numbers.b) };
  const want = bytes(numbers.c);
  return (config) => {
    const c = device.blank(want.byteLength);
    const places = { ...buffers, c };
    const params = launch.params.map((p) => {
      if (typeof p === "number") return p;
      if ("pointer" in p) return places[p.pointer];
      const { of, ...spec } = p.map;
      return value(device.emulator.encodeTensorMap({ ...spec, address: places[of] }));
    });
    const report = device.launch(launch.entry, launch.grid, launch.block, params, {
      dynamicSmem: launch.dynamicSmem,
      fuel: 400_000,
      ...(launch.cluster === undefined ? {} : { cluster: launch.cluster }),
      ...config,
    });
    const wrong = report.completed && Buffer.compare(device.emulator.read(c, want.byteLength), want) !== 0;
    device.emulator.free(c);
    return {
      rules: [...new Set(report.findings.map((f) => f.rule))],
      wrong,
      completed: report.completed,
      first:
        report.findings[0] === undefined
          ? ""
          : `${report.findings[0].message} ${report.findings[0].instruction}`,
    };
  };
}
