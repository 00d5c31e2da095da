/**
 * What the page runs: the golden kernels on the emulator, in hosts with and without WebAssembly. Classic script and main thread,
 * where browsers are strictest about compiling at once; all done before the page counts as loaded.
 */
import { formatDiagnostic, type TensorMapSpec } from "@tilewright/core";
import { createEmulator } from "../../src/index.ts";
import { toF16 } from "../../src/numerics/floats.ts";
import { generator } from "../random.ts";
import type { BrowserKernel, PageData, PageResult } from "./protocol.ts";

const [m, n, k] = [256, 256, 512];

/** What the page has of the browser; the type library has neither. */
const host = globalThis as unknown as {
  WebAssembly: { Module: new (bytes: Uint8Array) => object } | undefined;
  readonly document: { getElementById(id: "result"): { textContent: string } };
  readonly tilewright: PageData;
  readonly navigator: { readonly userAgent: string };
  btoa(text: string): string;
};

interface Inputs {
  readonly f32: readonly [Uint8Array, Uint8Array];
  readonly f16: readonly [Uint8Array, Uint8Array];
}

function inputs(): Inputs {
  const values = (seed: number): ((count: number) => Float32Array) => {
    const next = generator(seed);
    return (count) => Float32Array.from({ length: count }, () => Math.fround(next() - 0.5));
  };
  const [single, half] = [values(1), values(7)];
  const bytes = (data: Float32Array | Uint16Array): Uint8Array =>
    new Uint8Array(data.buffer, 0, data.byteLength);
  const halves = (count: number): Uint8Array => bytes(Uint16Array.from(half(count), toF16));
  return { f32: [bytes(single(m * k)), bytes(single(k * n))], f16: [halves(m * k), halves(n * k)] };
}

/** C's words, or why there are none. */
function run(kernel: BrowserKernel, { f32, f16 }: Inputs): Uint8Array | string {
  const emulator = createEmulator();
  const loaded = emulator.load(kernel.text);
  if (!loaded.ok) return loaded.error.map(formatDiagnostic).join("\n");
  const put = (data: Uint8Array): bigint => {
    const at = emulator.alloc(data.length);
    if (!at.ok) throw new Error("out of memory");
    emulator.write(at.value, data);
    return at.value;
  };
  const [a, b] = (kernel.inputs === "f32" ? f32 : f16).map(put);
  const c = emulator.alloc(4 * m * n);
  if (a === undefined || b === undefined || !c.ok) return "out of memory";
  const map = (
    dtype: "f16" | "f32",
    address: bigint,
    [columns, rows]: readonly [number, number],
    box: readonly [number, number],
  ): Uint8Array => {
    const width = dtype === "f16" ? 2 : 4;
    const swizzle = dtype === "f16" ? "128B" : "none";
    const spec: TensorMapSpec = {
      ...{ dtype, address, dims: [columns, rows], strides: [columns * width], box, swizzle },
      ...{ elementStrides: [1, 1], interleave: "none", l2: "none", fill: "zero" },
    };
    const encoded = emulator.encodeTensorMap(spec);
    if (!encoded.ok) throw new Error(encoded.error.map(formatDiagnostic).join("\n"));
    return encoded.value;
  };
  const { bBox } = kernel;
  const operands =
    bBox === null ? [a, b] : [map("f16", a, [k, m], [64, 128]), map("f16", b, [k, n], [64, bBox])];
  const store = kernel.stores ? [map("f32", c.value, [n, m], [128, 64])] : [];
  const report = emulator.launch(loaded.value, kernel.entry, {
    ...kernel.launch,
    params: [...operands, ...store, c.value, m, n, k],
  });
  if (!report.ok) return report.error.map(formatDiagnostic).join("\n");
  const { completed, findings } = report.value;
  if (!completed || findings.length > 0) return findings.map((f) => f.message).join("\n");
  return emulator.read(c.value, 4 * m * n);
}

const base64 = (bytes: Uint8Array): string => {
  let text = "";
  for (let at = 0; at < bytes.length; at += 8192)
    text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return host.btoa(text);
};

const whole = host.WebAssembly;
/** Compiling more than 4 KB at once is refused, as Chromium's main thread did until 2022. */
const limited: Record<PageData["wasm"], typeof whole> = {
  whole,
  none: undefined,
  limited:
    whole === undefined
      ? undefined
      : {
          ...Object.fromEntries(
            Object.getOwnPropertyNames(whole).map((name) => [name, (whole as Record<string, unknown>)[name]]),
          ),
          Module: new Proxy(whole.Module, {
            construct(target, [bytes]: [Uint8Array]) {
              if (bytes.length > 4096) throw new RangeError("buffer source exceeds maximum size of 4096");
              return new target(bytes);
            },
          }),
        },
};

function main(): PageResult {
  const { kernels, wasm } = host.tilewright;
  host.WebAssembly = limited[wasm];
  const data = inputs();
  const started = performanceNow();
  const results = kernels.map((kernel) => {
    const words = run(kernel, data);
    return typeof words === "string" ? { error: words } : { words: base64(words) };
  });
  return { agent: host.navigator.userAgent, milliseconds: performanceNow() - started, results };
}

function performanceNow(): number {
  return (globalThis as unknown as { readonly performance: { now(): number } }).performance.now();
}

let said: PageResult | { readonly failure: string };
try {
  said = main();
} catch (error) {
  said = { failure: `${error instanceof Error ? error.stack : error}` };
}
host.document.getElementById("result").textContent = JSON.stringify(said);
