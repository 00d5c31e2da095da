/** Helpers of the emulator's tests: a device with typed buffers, and expectations on reports. */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { type Checked, formatDiagnostic } from "@tilewright/core";
import { expect } from "vitest";
import { createEmulator, type LaunchConfig, type LaunchReport, type Order } from "../src/index.ts";

export { generator } from "./random.ts";

export const orders: readonly Order[] = ["eager", "lazy", "random"];

export function value<T>(checked: Checked<T>): T {
  if (!checked.ok) throw new Error(checked.error.map(formatDiagnostic).join("\n"));
  return checked.value;
}

export const fixture = (name: string): string =>
  readFileSync(fileURLToPath(new URL(`./${name}`, import.meta.url)), "utf8");
/** A module of the PTX corpus: `golden/simt_f32`. */
export const corpus = (name: string): string => fixture(`../../ptx/test/corpus/${name}.ptx`);
export const fixtureBytes = (name: string): Uint8Array =>
  readFileSync(fileURLToPath(new URL(`./${name}`, import.meta.url)));

type Data =
  | Float32Array
  | Float64Array
  | Int32Array
  | Uint32Array
  | Uint16Array
  | Uint8Array
  | BigUint64Array;

const bytesOf = (data: Data): Uint8Array => new Uint8Array(data.buffer, data.byteOffset, data.byteLength);

/** A device with one module. */
export function machine(ptx: string, options: Parameters<typeof createEmulator>[0] = {}) {
  const emulator = createEmulator(options);
  const module = value(emulator.load(ptx));
  return {
    emulator,
    module,
    /** A buffer with contents. */
    put(data: Data): bigint {
      const pointer = value(emulator.alloc(data.byteLength));
      emulator.write(pointer, bytesOf(data));
      return pointer;
    },
    /** A buffer that nobody has written. */
    blank: (bytes: number): bigint => value(emulator.alloc(bytes)),
    f32: (pointer: bigint, n: number) => new Float32Array(emulator.read(pointer, 4 * n).buffer),
    f64: (pointer: bigint, n: number) => new Float64Array(emulator.read(pointer, 8 * n).buffer),
    i32: (pointer: bigint, n: number) => new Int32Array(emulator.read(pointer, 4 * n).buffer),
    u32: (pointer: bigint, n: number) => new Uint32Array(emulator.read(pointer, 4 * n).buffer),
    u16: (pointer: bigint, n: number) => new Uint16Array(emulator.read(pointer, 2 * n).buffer),
    u64: (pointer: bigint, n: number) => new BigUint64Array(emulator.read(pointer, 8 * n).buffer),
    launch(
      entry: string,
      grid: number | readonly [number, number, number],
      block: number | readonly [number, number, number],
      params: LaunchConfig["params"],
      rest: Partial<LaunchConfig> = {},
    ): LaunchReport {
      return value(
        emulator.launch(module, entry, {
          grid: typeof grid === "number" ? [grid, 1, 1] : grid,
          block: typeof block === "number" ? [block, 1, 1] : block,
          params,
          ...rest,
        }),
      );
    },
  };
}

/** The launch ran to its end and showed nothing. */
export function clean(report: LaunchReport): void {
  expect(report.findings).toEqual([]);
  expect(report.completed).toBe(true);
}

/** A module with one kernel `k`; `params` are u64 names, the body sees %tid.x in %t. */
export function kernel(
  body: string,
  options: { readonly params?: readonly string[]; readonly target?: string; readonly module?: string } = {},
): string {
  const { params = ["out"], target = "sm_90", module = "" } = options;
  return `.version 8.6
.target ${target}
.address_size 64
${module}
.visible .entry k(${params.map((p) => `.param .u64 ${p}`).join(", ")})
{
.reg .pred %p<8>;
.reg .b16 %h<8>;
.reg .b32 %r<16>;
.reg .b32 %t;
.reg .b64 %d<16>;
.reg .f32 %f<8>;
.reg .f64 %g<8>;
mov.u32 %t, %tid.x;
${body}
ret;
}
`;
}
