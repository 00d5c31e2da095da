/** More CUDA C++ through nvcc 13.0: rows of neural networks, ordinary control flow, whole blocks at work. */
import { decode, encode } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, fixture, generator, machine, orders } from "./support.ts";

const mask64 = (1n << 64n) - 1n;

describe("neural.cu", () => {
  const device = machine(fixture("cuda/neural.ptx"));

  test.each([1, 31, 32, 77, 200])("softmax of rows of %i, one warp each", (cols) => {
    const rows = 6;
    const next = generator(cols);
    const x = Float32Array.from({ length: rows * cols }, () => 20 * (next() - 0.5));
    const input = device.put(x);
    for (const order of orders) {
      const out = device.blank(4 * rows * cols);
      clean(device.launch("softmax", 2, 128, [input, out, rows, cols], { order }));
      const got = device.f32(out, rows * cols);
      for (let r = 0; r < rows; r++) {
        const row = x.subarray(r * cols, (r + 1) * cols);
        const most = Math.max(...row);
        const sum = row.reduce((s, v) => s + Math.exp(v - most), 0);
        row.forEach((v, c) => {
          const want = Math.exp(v - most) / sum;
          expect(Math.abs((got[r * cols + c] ?? Number.NaN) - want)).toBeLessThan(1e-5 * want + 1e-12);
        });
      }
    }
  });

  test("layer norm of halves, statistics through shared memory", () => {
    const [rows, cols] = [3, 260];
    const next = generator(11);
    const x = Uint16Array.from({ length: rows * cols }, () => encode("f16", 4 * next() - 1));
    const gain = Float32Array.from({ length: cols }, (_, c) => 1 + c / 100);
    const [input, gains] = [device.put(x), device.put(gain)];
    for (const order of orders) {
      const out = device.blank(2 * rows * cols);
      clean(device.launch("layernorm", rows, 96, [input, gains, out, cols, 1e-5], { order }));
      const got = device.u16(out, rows * cols);
      for (let r = 0; r < rows; r++) {
        const row = Array.from(x.subarray(r * cols, (r + 1) * cols), (h) => decode("f16", h));
        const mean = row.reduce((s, v) => s + v, 0) / cols;
        const variance = row.reduce((s, v) => s + v * v, 0) / cols - mean * mean;
        row.forEach((v, c) => {
          const want = ((v - mean) / Math.sqrt(variance + 1e-5)) * (gain[c] ?? 0);
          const error = Math.abs(decode("f16", got[r * cols + c] ?? 0) - want);
          // Half an ulp of f16 is 2^-11 of the value.
          expect(error).toBeLessThan(Math.abs(want) * 2 ** -10.9 + 1e-4);
        });
      }
    }
  });

  test("dot products of packed signed bytes", () => {
    const words = 9;
    const next = generator(2);
    const bytes = () => Int8Array.from({ length: 32 * words * 4 }, () => Math.floor(next() * 256) - 128);
    const [a, b] = [bytes(), bytes()];
    const out = device.blank(128);
    const asWords = (x: Int8Array) => new Int32Array(x.buffer);
    clean(device.launch("dot_bytes", 1, 32, [device.put(asWords(a)), device.put(asWords(b)), out, words]));
    const per = words * 4;
    const want = Int32Array.from({ length: 32 }, (_, t) =>
      a.subarray(t * per, (t + 1) * per).reduce((s, v, k) => s + v * (b[t * per + k] ?? 0), 0),
    );
    expect(device.i32(out, 32)).toEqual(want);
  });
});

describe("control.cu", () => {
  const device = machine(fixture("cuda/control.ptx"));
  const n = 90;

  test("a structure by value: pointers, short, char and double at their offsets", () => {
    const data = Int32Array.from({ length: n }, (_, k) => Math.imul(k + 1, -0x61c88647));
    const [input, out] = [device.put(data), device.blank(4 * n)];
    const [step, shift, scale] = [-7, 5, 2.75];
    const bytes = new Uint8Array(32);
    const view = new DataView(bytes.buffer);
    view.setBigUint64(0, input, true);
    view.setBigUint64(8, out, true);
    view.setInt32(16, n, true);
    view.setInt16(20, step, true);
    view.setInt8(22, shift);
    view.setFloat64(24, scale, true);
    clean(device.launch("by_value", 3, 32, [bytes]));
    const want = data.map((x, i) => {
      const high = Number(BigInt.asIntN(32, (BigInt(x >>> 0) << BigInt(shift)) >> 3n));
      return Math.imul(high, step) + Math.trunc(scale * i);
    });
    expect(device.i32(out, n)).toEqual(want);
  });

  test("a stack machine: local array, switch, calls that diverge", () => {
    const next = generator(5);
    const code = Uint8Array.from({ length: 40 }, () =>
      next() < 0.55 ? 100 + Math.floor(next() * 50) : Math.floor(next() * 12),
    );
    const input = Int32Array.from({ length: n }, (_, k) => Math.imul(k - 40, 7919));
    const collatz = (start: number): number => {
      let steps = 0;
      for (let x = start; x !== 1; steps++) x = x & 1 ? 3 * x + 1 : x >>> 1;
      return steps;
    };
    const operations: readonly ((x: number, y: number) => number)[] = [
      (x, y) => x + y,
      (x, y) => x - y,
      Math.imul,
      (x, y) => (y === 0 ? -1 : x / y),
      (x, y) => (y === 0 ? -2 : x % y),
      (x, y) => x & y,
      (x, y) => x | ~y,
      (x, y) => x ^ y,
      (x, y) => x << y,
      (x, y) => x >> y,
      (x) => collatz((x & 1023) + 1),
    ];
    const run = (value: number, i: number): number => {
      const stack = [value];
      for (let k = 0; k < code.length; k++) {
        const op = code[(k + (value & 1)) % code.length] ?? 0;
        if (op >= 100) {
          if (stack.length < 16) stack.push(op - 100 + i);
        } else if (stack.length > 1) {
          const y = stack.pop() ?? 0;
          const x = stack.pop() ?? 0;
          stack.push((operations[op]?.(x, y) ?? op) | 0);
        }
      }
      return stack.reduce((sum, v) => (Math.imul(sum, 31) + v) | 0, 0);
    };
    const [program, data] = [device.put(code), device.put(input)];
    for (const order of orders) {
      const out = device.blank(4 * n);
      const report = device.launch("machine", 2, 64, [program, code.length, data, out, n], { order });
      clean(report);
      expect(device.i32(out, n)).toEqual(input.map(run));
      expect(report.counters.localBytesWritten).toBeGreaterThan(0);
    }
  });

  test("inline assembly: scopes, a label of the same name twice, predicates, vectors of halves", () => {
    const next = generator(8);
    const data = Uint32Array.from({ length: n }, (_, k) => (k < 3 ? k : Math.floor(next() * 2 ** 32)));
    const out = device.blank(8 * n);
    clean(device.launch("assembly", 1, 96, [device.put(data), out, n]));
    const highest = (x: number): bigint => BigInt(31 - Math.clz32(x));
    const want = BigUint64Array.from(data, (x) => {
      const both = BigInt(x) * BigInt((x ^ 0x9e3779b9) >>> 0);
      const marked = (x | 0) < 0 ? both + 1n : both ^ 255n;
      return (marked * 64n + highest(x) + highest(x >>> 7)) & mask64;
    });
    expect(device.u64(out, n)).toEqual(want);
  });

  test("modular powers of 64-bit numbers", () => {
    const count = 40;
    const m = 0xffffffff00000001n;
    const next = generator(4);
    const random = () => (BigInt(Math.floor(next() * 2 ** 24)) << 40n) | BigInt(Math.floor(next() * 2 ** 24));
    const base = BigUint64Array.from({ length: count }, random);
    const exponent = BigUint64Array.from({ length: count }, (_, k) => (k < 2 ? BigInt(k) : random() >> 44n));
    const out = device.blank(8 * count);
    clean(device.launch("modpow", 1, 64, [device.put(base), device.put(exponent), out, m, count]));
    const want = BigUint64Array.from(base, (b, k) => {
      let r = 1n;
      let power = b % m;
      for (let e = exponent[k] ?? 0n; e > 0n; e >>= 1n) {
        if (e & 1n) r = (r * power) % m;
        power = (power * power) % m;
      }
      const ones = BigInt([...r.toString(2)].filter((c) => c === "1").length);
      const zeros = BigInt(64 - (r | 1n).toString(2).length);
      return (r ^ (ones << 58n) ^ zeros) & mask64;
    });
    expect(device.u64(out, count)).toEqual(want);
  });
});

describe("blocks.cu", () => {
  test("bitonic sort in dynamic shared memory", () => {
    const device = machine(fixture("cuda/blocks.ptx"));
    const [size, tiles] = [256, 2];
    const next = generator(6);
    const data = Int32Array.from({ length: size * tiles }, () => Math.floor(next() * 2 ** 32) | 0);
    const want = Int32Array.from(
      Array.from({ length: tiles }, (_, t) => data.slice(t * size, (t + 1) * size).sort()).flatMap((t) => [
        ...t,
      ]),
    );
    for (const order of orders) {
      const tile = device.put(data);
      clean(device.launch("bitonic", tiles, size / 2, [tile, size], { order, dynamicSmem: 4 * size }));
      expect(device.i32(tile, size * tiles)).toEqual(want);
    }
  });

  test("histogram: warps aggregate by match, blocks by atomics", () => {
    const device = machine(fixture("cuda/blocks.ptx"));
    const n = 1500;
    const next = generator(3);
    const data = Uint16Array.from({ length: n }, () => Math.floor(next() ** 3 * 65536));
    const want = new Uint32Array(64);
    for (const x of data) want[x & 63] = (want[x & 63] ?? 0) + 1;
    const input = device.put(data);
    for (const order of orders) {
      const bins = device.put(new Uint32Array(64));
      clean(device.launch("histogram", 3, 128, [input, bins, n], { order }));
      expect(device.u32(bins, 64)).toEqual(want);
    }
  });

  test("the last block adds up; the ticket wraps, so that it works twice", () => {
    const device = machine(fixture("cuda/blocks.ptx"));
    const n = 3000;
    const data = Float32Array.from({ length: n }, (_, k) => (k % 23) - 9);
    const input = device.put(data);
    for (const order of orders) {
      const [partial, out] = [device.blank(4 * 6), device.blank(4)];
      clean(device.launch("total", 6, 128, [input, partial, out, n], { order }));
      expect(device.f32(out, 1)[0]).toBe(data.reduce((s, x) => s + x, 0));
    }
  });

  test("shared variables demoted into the function, passed as generic pointers", () => {
    const device = machine(fixture("cuda/blocks.ptx"));
    const data = Int32Array.from({ length: 256 }, (_, k) => Math.imul(k, 2654435761));
    const input = device.put(data);
    const at = (t: number, k: number): number => data[4 * t + k] ?? 0;
    const left = (t: number): number => (at(t, 0) + at(t, 3)) | 0;
    const right = (t: number): number => (at(t, 1) - at(t, 2)) | 0;
    const want = Int32Array.from(
      Array.from({ length: 64 }, (_, t) => {
        const k = (t + 21) & 63;
        return [left(k), right(k), left(63 - k), t % 3 === 0 ? at(t, 3) : right(63 - k)];
      }).flat(),
    );
    for (const order of orders) {
      const out = device.blank(1024);
      clean(device.launch("demoted", 1, 64, [input, out], { order }));
      expect(device.i32(out, 256)).toEqual(want);
    }
  });
});

describe("pointers.cu", () => {
  test("functions through a table of pointers, lanes apart", () => {
    const device = machine(fixture("cuda/pointers.ptx"));
    const steps = 7;
    const kinds = Int32Array.from({ length: 64 }, (_, i) => (i * 5) % 3);
    const input = Int32Array.from({ length: 64 }, (_, i) => i - 20);
    const operations: readonly ((a: number, b: number) => number)[] = [
      (a, b) => (a + b) | 0,
      Math.imul,
      (a, b) => {
        let x = a;
        for (let k = 0; k < (b & 7); k++) x = (Math.imul(x, 3) + k) | 0;
        return x;
      },
    ];
    const want = input.map((start, i) => {
      let x = start;
      for (let k = 0; k < steps; k++) x = operations[((kinds[i] ?? 0) + k) % 3]?.(x, i + k) ?? 0;
      return x;
    });
    const [table, data] = [device.put(kinds), device.put(input)];
    for (const order of orders) {
      const out = device.blank(256);
      clean(device.launch("chain", 1, 64, [table, data, out, steps], { order }));
      expect(device.i32(out, 64)).toEqual(want);
    }
  });

  test("a pointer that means no function ends the launch", () => {
    const device = machine(fixture("cuda/pointers.ptx").replace("_Z5loopsii};", "4096};"));
    const zeros = device.put(new Int32Array(32).fill(2));
    const report = device.launch("chain", 1, 32, [zeros, zeros, device.blank(128), 1]);
    expect([report.completed, report.findings.map(({ rule }) => rule)]).toEqual([false, ["H032"]]);
  });
});
