/** CUDA C++ compiled by nvcc 13.0 (`nvcc -ptx`, sources beside the .ptx): the code that people bring. */
import { decode, encode } from "@tilewright/core";
import { describe, expect, test } from "vitest";
import { clean, fixture, generator, machine, orders } from "./support.ts";

const i32 = (x: number): number => x | 0;

describe("reduce.cu", () => {
  const device = machine(fixture("cuda/reduce.ptx"));

  test("reduce_sum adds with shuffles, shared memory and an atomic", () => {
    const n = 5000;
    const data = Float32Array.from({ length: n }, (_, k) => (k % 17) - 8);
    const input = device.put(data);
    for (const order of orders) {
      const out = device.put(new Float32Array(1));
      clean(device.launch("reduce_sum", 7, 96, [input, out, n], { order }));
      expect(device.f32(out, 1)[0]).toBe(data.reduce((s, x) => s + x, 0));
    }
  });

  test("scan_block in dynamic shared memory", () => {
    const data = Int32Array.from({ length: 200 }, (_, k) => (k * 37) % 11);
    let sum = 0;
    const want = data.map((x) => (sum += x));
    const input = device.put(data);
    for (const order of orders) {
      const out = device.blank(800);
      clean(device.launch("scan_block", 1, 256, [input, out, 200], { order, dynamicSmem: 1024 }));
      expect(device.i32(out, 200)).toEqual(want);
    }
  });

  test("transpose with ragged edges", () => {
    const [rows, cols] = [70, 45];
    const data = Float32Array.from({ length: rows * cols }, (_, k) => k);
    const input = device.put(data);
    const out = device.blank(rows * cols * 4);
    const report = device.launch("transpose", [2, 3, 1], [32, 8, 1], [input, out, rows, cols]);
    clean(report);
    const got = device.f32(out, rows * cols);
    for (let r = 0; r < rows; r++)
      for (let c = 0; c < cols; c++) expect(got[c * rows + r]).toBe(r * cols + c);
    // A pitch of 33 words: columns of the tile lie in different banks.
    expect(report.counters.sharedConflicts).toBe(0);
    expect(report.counters.globalBytesWritten).toBe(rows * cols * 4);
  });

  test("matmul with guards, against float64", () => {
    const [m, n, k] = [33, 20, 50];
    const next = generator(3);
    const a = Float32Array.from({ length: m * k }, () => next() - 0.5);
    const b = Float32Array.from({ length: k * n }, () => next() - 0.5);
    const [pa, pb] = [device.put(a), device.put(b)];
    for (const order of orders) {
      const c = device.blank(m * n * 4);
      clean(device.launch("matmul", [2, 3, 1], [16, 16, 1], [pa, pb, c, m, n, k], { order }));
      const got = device.f32(c, m * n);
      for (let i = 0; i < m; i++)
        for (let j = 0; j < n; j++) {
          let want = 0;
          for (let q = 0; q < k; q++) want += (a[i * k + q] ?? 0) * (b[q * n + j] ?? 0);
          expect(Math.abs((got[i * n + j] ?? Number.NaN) - want)).toBeLessThan(1e-5);
        }
    }
  });
});

describe("integers.cu", () => {
  const device = machine(fixture("cuda/integers.ptx"));
  const u64 = (x: bigint): bigint => BigInt.asUintN(64, x);
  const s64 = (x: bigint): bigint => BigInt.asIntN(64, x);

  test("hash64: 64-bit products, shifts, divisions, a call of a function that is not inlined", () => {
    const n = 100;
    const data = BigUint64Array.from({ length: n }, (_, k) =>
      u64(BigInt(k) * 0xdeadbeefcafef00dn + (BigInt(k) << 40n)),
    );
    const mix = (v: bigint): bigint => {
      let x = v;
      x ^= x >> 33n;
      x = u64(x * 0xff51afd7ed558ccdn);
      x ^= x >> 29n;
      x = u64(x * 0xc4ceb9fe1a85ec53n);
      return x ^ (x >> 32n);
    };
    const want = data.map((x, k) => {
      let h = mix(x);
      h = mix(u64(h + BigInt(k) * 0x9e3779b97f4a7c15n)) ^ (h % 1000003n) ^ (h / 77777n);
      const s = s64(h);
      return u64((s % 12345n) + s / -321n + ((h * x) >> 64n) + ((s * s64(x)) >> 64n));
    });
    const input = device.put(data);
    const out = device.blank(8 * n);
    clean(device.launch("hash64", 2, 64, [input, out, n]));
    expect(device.u64(out, n)).toEqual(want);
  });

  test("histogram with atomics on shared and global memory, in all orders", () => {
    const n = 3000;
    const next = generator(9);
    const data = Uint8Array.from({ length: n }, () => Math.floor(next() ** 2 * 256));
    const want = new Uint32Array(256);
    for (const x of data) want[x] = (want[x] ?? 0) + 1;
    const input = device.put(data);
    for (const order of orders) {
      const out = device.put(new Uint32Array(256));
      clean(device.launch("histogram", 5, 128, [input, out, n], { order }));
      expect(device.u32(out, 256)).toEqual(want);
    }
  });

  test("division, remainder, high products and bit tricks", () => {
    const values = [0x7fffffff, -0x80000000, 1, -1, 7, -7, 12345678, -987654321, 3, 0x55555555 | 0];
    const a = Int32Array.from(values.flatMap((x) => values.map(() => x)));
    const b = Int32Array.from(values.flatMap(() => values));
    const n = a.length;
    const out = device.blank(24 * n);
    clean(device.launch("divisions", 1, 128, [device.put(a), device.put(b), out, n]));
    const got = device.i32(out, 6 * n);
    for (let k = 0; k < n; k++) {
      const [x, y] = [BigInt(a[k] ?? 0), BigInt(b[k] ?? 0)];
      const [ux, uy] = [BigInt.asUintN(32, x), BigInt.asUintN(32, y)];
      const bits = (v: bigint): string => BigInt.asUintN(32, v).toString(2).padStart(32, "0");
      const reversed = Number.parseInt([...bits(uy)].reverse().join(""), 2);
      const wide = (uy << 32n) | ux;
      const shift = y & 31n;
      const funnel = BigInt.asUintN(32, (wide << shift) >> 32n);
      const byte = (v: bigint, j: number): bigint => (v >> BigInt(8 * j)) & 255n;
      const all = (uy << 32n) | ux;
      const perm = byte(all, 1) | (byte(all, 4) << 8n) | (byte(all, 2) << 16n) | (byte(all, 6) << 24n);
      const want = [
        x / y,
        x % y,
        ux / uy,
        ux % uy,
        ((x * y) >> 32n) ^ ((ux * uy) >> 32n),
        BigInt(
          [...bits(ux)].filter((c) => c === "1").length + 64 * Math.clz32(a[k] ?? 0) + 4096 * (reversed & 63),
        ) +
          funnel +
          perm,
      ].map((v) => Number(BigInt.asIntN(32, v)));
      expect(Array.from(got.slice(6 * k, 6 * k + 6)), `${x} and ${y}`).toEqual(want);
    }
  });

  test("votes, matches and shuffles", () => {
    const data = Int32Array.from({ length: 32 }, (_, k) => ((k * 5) % 13) - 6);
    const out = device.blank(128);
    clean(device.launch("warp_votes", 1, 32, [device.put(data), out]));
    const at = (k: number): number => data[k] ?? 0;
    const mask = (test: (k: number) => boolean): number =>
      data.reduce((m, _, k) => (test(k) ? m | (1 << k) : m), 0);
    const odd = data.filter((x) => x & 1).length;
    const want = Uint32Array.from({ length: 32 }, (_, t) => {
      const up = t >= 3 ? at(t - 3) : at(t);
      const idx = at((t & ~7) + 5);
      const any = data.includes(7) ? 1 : 0;
      return (
        mask((k) => at(k) > 0) +
        3 * any +
        5 +
        7 * (mask((k) => at(k) === at(t)) >>> 0) +
        11 * up +
        13 * idx +
        17 * (at(t) & 1 ? odd : 0)
      );
    });
    expect(device.u32(out, 32)).toEqual(want);
  });

  test("blocks that wait for one another are resident together", () => {
    for (const order of orders) {
      const data = device.put(new Int32Array(40));
      clean(device.launch("grid_barrier", 20, 64, [data, device.put(new Int32Array(1))], { order, seed: 4 }));
      const got = device.i32(data, 40);
      for (let b = 0; b < 20; b++) expect(got[20 + b]).toBe(((b + 1) % 20) + 1 + (((b + 19) % 20) + 1));
    }
  });

  test("a spin lock in global memory", () => {
    for (const order of orders) {
      const counter = device.put(new Int32Array(1));
      clean(device.launch("locked", 9, 32, [device.put(new Int32Array(1)), counter], { order, seed: 2 }));
      expect(device.i32(counter, 1)[0]).toBe((3 ** 9 - 1) / 2);
    }
  });

  test("local arrays and a switch", () => {
    const n = 64;
    const data = Int32Array.from({ length: n }, (_, k) => k * 3 - 20);
    const out = device.blank(4 * n);
    clean(device.launch("local_and_switch", 1, n, [device.put(data), out, n]));
    const want = data.map((x) => {
      const a = Int32Array.from({ length: 16 }, (_, k) => x * k);
      for (let k = 0; k < 16; k++) a[(k * 7 + x) & 15] = (a[(k * 7 + x) & 15] ?? 0) + k;
      const v = (k: number): number => a[k] ?? 0;
      switch (x & 7) {
        case 0:
          return v(x & 15);
        case 1:
          return v(3) ^ v(5);
        case 2:
          return i32(v(1) * 3);
        case 3:
          return i32(v(2) - v(9));
        case 4:
          return -v(4);
        case 5:
          return v(15) << 2;
        case 6:
          return i32(v(6) / 3);
        default:
          return 42;
      }
    });
    expect(device.i32(out, n)).toEqual(want);
  });

  test("constant and device variables keep their values between launches", () => {
    const data = Int32Array.from({ length: 8 }, (_, k) => 50 * k);
    const table = [3, 1, 4, 1, 5, 9, 2, 6];
    const input = device.put(data);
    const out = device.blank(32);
    clean(device.launch("constants", 1, 32, [input, out, 8]));
    expect(Array.from(device.i32(out, 8))).toEqual(Array.from(data, (x) => (table[x & 7] ?? 0) * 10 + 100));
    clean(device.launch("constants", 1, 32, [input, out, 8]));
    expect(Array.from(device.i32(out, 8))).toEqual(Array.from(data, (x) => (table[x & 7] ?? 0) * 10 + 350));
  });
});

describe("floats.cu", () => {
  const device = machine(fixture("cuda/floats.ptx"));

  test("library functions within a few units in the last place", () => {
    const values = [0.3, -1.7, 2.5, 10.25, -0.001, 1e-20, 4.0, -3.3, 33.3, 0];
    const data = Float32Array.from(values);
    const n = data.length;
    const out = device.blank(48 * n);
    clean(device.launch("functions", 1, 32, [device.put(data), out, n]));
    const got = device.f32(out, 12 * n);
    const erf = (x: number): number => {
      let [sum, term] = [x, x];
      for (let k = 1; k < 200; k++) {
        term *= (-x * x) / k;
        sum += term / (2 * k + 1);
      }
      return Math.abs(x) > 4 ? Math.sign(x) : (2 / Math.sqrt(Math.PI)) * sum;
    };
    const even = (x: number): number => {
      const down = Math.floor(x);
      const rest = x - down;
      return rest < 0.5 || (rest === 0.5 && down % 2 === 0) ? down : down + 1;
    };
    data.forEach((x, k) => {
      const want = [
        Math.exp(x),
        Math.log(Math.abs(x) + 0.1),
        Math.sin(x),
        Math.cos(x),
        Math.tanh(x),
        Math.sqrt(Math.abs(x)),
        1 / (x * x + 1),
        x / 3.7,
        1 / Math.sqrt(Math.abs(x) + 1),
        erf(x),
        Math.abs(x) ** 1.5,
        Math.max(Math.min(even(x), 2), Math.floor(x) - Math.ceil(x)),
      ];
      want.forEach((w, j) => {
        const error = Math.abs((got[12 * k + j] ?? Number.NaN) - w);
        expect(error, `function ${j} of ${x}`).toBeLessThanOrEqual(Math.abs(w) * 1e-6 + 2e-7);
      });
    });
  });

  test("doubles", () => {
    const data = Float64Array.from([0.1, -2.5, 1234.5678, 1e-3, -7.25]);
    const n = data.length;
    const out = device.blank(48 * n);
    clean(device.launch("doubles", 1, 32, [device.put(data), out, n]));
    const got = device.f64(out, 6 * n);
    data.forEach((x, k) => {
      const o = (j: number): number => got[6 * k + j] ?? Number.NaN;
      expect(Math.abs(o(0) - (x * x - 1 / 3))).toBeLessThanOrEqual(1e-15 * Math.max(1, x * x));
      expect(o(1)).toBe(x / 3.1);
      expect(o(2)).toBe(Math.sqrt(Math.abs(x)));
      expect(Math.abs(o(3) - Math.exp(x)) / Math.max(1, Math.exp(x)) || 0).toBeLessThan(1e-15);
      expect(o(4)).toBe(Math.fround(x) + Math.trunc(x));
      expect(o(5)).toBe(-x + Math.trunc(x * 1e6));
    });
  });

  test("packed halves", () => {
    const pairs = [
      [1.5, -2.25],
      [0.333, 1000],
      [-0.0001, 65504],
      [3, 0.1],
    ];
    const other = [
      [0.5, 4],
      [7.77, 1001],
      [12, 3],
      [-3, 0.1],
    ];
    const code = (rows: readonly (readonly number[])[]) =>
      Uint16Array.from(rows.flat(), (x) => encode("f16", x));
    const [a, b] = [code(pairs), code(other)];
    const n = pairs.length;
    const out = device.blank(16 * n);
    clean(device.launch("halves", 1, 32, [device.put(a), device.put(b), out, n]));
    const got = device.u16(out, 8 * n);
    const round = (x: number): number => decode("f16", encode("f16", x));
    for (let k = 0; k < n; k++) {
      const x = [0, 1].map((h) => decode("f16", a[2 * k + h] ?? 0));
      const y = [0, 1].map((h) => decode("f16", b[2 * k + h] ?? 0));
      const at = (v: number[], h: number): number => v[h] ?? 0;
      for (const h of [0, 1]) {
        // Products and sums of f16 are exact enough in double for these values.
        const sum = round(at(x, h) + at(y, h));
        expect(decode("f16", got[8 * k + h] ?? 0)).toBe(round(at(x, h) * at(y, h) + sum));
        expect(decode("f16", got[8 * k + 2 + h] ?? 0)).toBe(round(round(at(x, h) - at(y, h)) * at(x, h)));
        expect(decode("f16", got[8 * k + 4 + h] ?? 0)).toBe(Math.max(at(x, h), -at(y, h)));
      }
      expect(decode("f16", got[8 * k + 6] ?? 0)).toBe(round(Math.fround(at(x, 0) * 1.5)));
      expect(decode("f16", got[8 * k + 7] ?? 0)).toBe(
        round(Math.trunc(at(y, 1)) + (at(x, 0) < at(y, 0) ? 1 : 0)),
      );
    }
  });

  test("bfloat16 and fp8", () => {
    const data = Float32Array.from([1.234, -0.77, 500, 1e-3, 3e5, -1e-9]);
    const n = data.length;
    const out = device.blank(4 * n);
    const fp8 = device.blank(2 * n);
    clean(device.launch("bfloats", 1, 32, [device.put(data), out, fp8, n]));
    const got = device.u16(out, 2 * n);
    const bytes = device.emulator.read(fp8, 2 * n);
    const round = (x: number): number => decode("bf16", encode("bf16", x));
    data.forEach((v, k) => {
      const x = round(v);
      expect(decode("bf16", got[2 * k] ?? 0)).toBe(round(x + round(0.7)));
      expect(decode("bf16", got[2 * k + 1] ?? 0)).toBe(round(x * x + x));
      expect(bytes[2 * k]).toBe(encode("e4m3", v, "rn", "saturate"));
      expect(bytes[2 * k + 1]).toBe(encode("e5m2", v, "rn", "saturate"));
    });
  });
});

describe("copies.cu", () => {
  const device = machine(fixture("cuda/copies.ptx"));

  test("a two-stage cp.async pipeline", () => {
    const tiles = 5;
    const data = Float32Array.from({ length: tiles * 256 }, (_, k) => (k * 7) % 31);
    const input = device.put(data);
    for (const order of orders)
      for (const seed of [1, 2, 3]) {
        const out = device.blank(256);
        clean(device.launch("staged", 1, 64, [input, out, tiles], { order, seed }));
        const got = device.f32(out, 64);
        for (let t = 0; t < 64; t++) {
          let want = 0;
          for (let k = 0; k < tiles; k++)
            for (let j = 0; j < 4; j++) want += (j + 1) * (data[k * 256 + ((t + 17) & 63) * 4 + j] ?? 0);
          expect(got[t]).toBe(want);
        }
      }
  });
});
