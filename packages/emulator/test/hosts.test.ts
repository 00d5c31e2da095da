/**
 * Bits do not depend on the host: every floating-point form of mma.sync and wgmma gives what an H200 gave where the host has relaxed SIMD (as this one
 * has), where it has not, and where it has no WebAssembly at all. The first is what all other tests run on.
 */
import { createHash } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { Emulator } from "../src/index.ts";
import * as mma from "./mma-forms.ts";
import { fixture } from "./support.ts";
import * as wgmma from "./wgmma-forms.ts";

const goldenOf = (name: string): Readonly<Record<string, Readonly<Record<string, string>>>> =>
  JSON.parse(fixture(`golden/${name}`));
const hashOf = (words: Uint8Array): string => createHash("sha256").update(words).digest("hex");

/** The host's WebAssembly, whose type library is not there. */
interface Wasm {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Memory: unknown;
  readonly Instance: unknown;
  readonly CompileError: new (message: string) => Error;
}
const { Module, Memory, Instance, CompileError } = (globalThis as unknown as { readonly WebAssembly: Wasm })
  .WebAssembly;

/** Modules that contain these bytes are refused: the opcode of i32x4.relaxed_trunc_f32x4_s. */
const relaxedOpcode = [0xfd, 0x81, 0x02] as const;
let refused = 0;
const strict = new Proxy(Module, {
  construct(target, [bytes]: [Uint8Array]) {
    for (let at = bytes.indexOf(0xfd); at >= 0; at = bytes.indexOf(0xfd, at + 1))
      if (bytes[at + 1] === relaxedOpcode[1] && bytes[at + 2] === relaxedOpcode[2]) {
        refused += 1;
        throw new CompileError("relaxed SIMD is not there");
      }
    return new target(bytes);
  },
});

const hosts = [
  { host: "without relaxed SIMD", wasm: { Memory, Instance, Module: strict } },
  { host: "without WebAssembly", wasm: undefined },
] as const;

afterEach(() => {
  vi.unstubAllGlobals();
  vi.resetModules();
});

/** A device of the package as such a host loads it. */
async function emulatorOn(wasm: (typeof hosts)[number]["wasm"]): Promise<Emulator> {
  vi.stubGlobal("WebAssembly", wasm);
  vi.resetModules();
  const { createEmulator } = await import("../src/index.ts");
  return createEmulator();
}

function lazily<T>(make: () => T): () => T {
  let made: { readonly value: T } | null = null;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

/** A kernel `k` in a device: from its inputs to the bytes it writes. */
function runner(emulator: Emulator, text: string, blocks: number, threads: number) {
  const loaded = emulator.load(text);
  if (!loaded.ok) throw new Error(loaded.error.map((d) => d.message).join("\n"));
  const place = (bytes: number): bigint => {
    const at = emulator.alloc(bytes);
    if (!at.ok) throw new Error("out of memory");
    return at.value;
  };
  return (inputs: readonly Uint8Array[], outputBytes: number): Uint8Array => {
    const params = inputs.map((data) => {
      const at = place(data.length);
      emulator.write(at, data);
      return at;
    });
    const to = place(outputBytes);
    const report = emulator.launch(loaded.value, "k", {
      grid: [blocks, 1, 1],
      block: [threads, 1, 1],
      params: [...params, to],
      arithmetic: "sm_90",
      checks: "none",
    });
    if (!report.ok || !report.value.completed) throw new Error("the launch did not run to its end");
    return emulator.read(to, outputBytes);
  };
}

const floats: readonly string[] = ["f16", "bf16", "tf32", "e4m3", "e5m2"];

const bytesOf = (words: Uint32Array): Uint8Array =>
  new Uint8Array(words.buffer, words.byteOffset, words.byteLength);

/** Inputs take longer to make than products: they are made once for all hosts. */
const wgmmaCases = lazily(() =>
  wgmma.wgmmaForms
    .filter(({ a }) => floats.includes(a))
    // One form of three; all with TILEWRIGHT_SLOW=1.
    .filter((_, i) => process.env.TILEWRIGHT_SLOW === "1" || i % 3 === 0)
    .flatMap((f) =>
      mma.inputClasses.map((kind) => {
        const { a, b, c } = wgmma.buffersOf(f, wgmma.casesOf(f, kind));
        return { f, kind, inputs: [a, b, c] };
      }),
    ),
);

describe.each(hosts)("$host", ({ wasm }) => {
  test("floating-point forms of wgmma give the H200's bits", async () => {
    const emulator = await emulatorOn(wasm);
    const golden = goldenOf("wgmma-sm_90a.json");
    const before = refused;
    for (const { f, kind, inputs } of wgmmaCases()) {
      const run = runner(emulator, wgmma.kernelOf(f), wgmma.casesPerClass, wgmma.threads);
      const words = run(inputs, wgmma.outputBytes(f, wgmma.casesPerClass));
      expect(hashOf(words), `${f.name} ${kind}`).toBe(golden[f.name]?.[kind]);
    }
    // The host was asked for the relaxed form, and gave none.
    if (wasm !== undefined) expect(refused).toBeGreaterThan(before);
  });

  test("every floating-point form of mma.sync gives the H200's bits", async () => {
    const emulator = await emulatorOn(wasm);
    const golden = goldenOf("mma-sm_90.json");
    const forms = mma.forms.filter((f) => floats.includes(f.a) && !f.name.includes("m8n8k4"));
    expect(forms.length).toBeGreaterThan(0);
    for (const f of forms) {
      const run = runner(emulator, mma.kernelOf(f), mma.casesPerClass, 32);
      for (const kind of mma.inputClasses) {
        const { a, b, c } = mma.inputsOf(f, kind);
        const words = run([a, b, c].map(bytesOf), 4 * mma.outputWords(f));
        expect(hashOf(words), `${f.name} ${kind}`).toBe(golden[f.name]?.[kind]);
      }
    }
  });
});
