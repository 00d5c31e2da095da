/** ldmatrix of 8-bit elements and of 4- and 6-bit elements that it spreads over bytes, beside a model of the matrices. */
import { describe, expect, test } from "vitest";
import { clean, generator, kernel, machine } from "./support.ts";

const shared = ".shared .align 16 .b8 sm[512];";

interface Form {
  readonly shape: "m8n16" | "m16n16";
  readonly count: 1 | 2 | 4;
  readonly bits: 4 | 6 | 8;
}

const forms: readonly Form[] = ([4, 6, 8] as const).flatMap((bits) => [
  ...(bits === 8 ? [] : ([1, 2, 4] as const).map((count) => ({ shape: "m8n16", count, bits }) as const)),
  ...([1, 2] as const).map((count) => ({ shape: "m16n16", count, bits }) as const),
]);

const typeOf = { 4: "b8x16.b4x16_p64", 6: "b8x16.b6x16_p32", 8: "b8" } as const;

const nameOf = ({ shape, count, bits }: Form): string =>
  `ldmatrix.sync.aligned.${shape}.x${count}${shape === "m16n16" ? ".trans" : ""}.shared.${typeOf[bits]}`;

const registersOf = ({ shape, count }: Form): number => (shape === "m16n16" ? 2 : 1) * count;

/** Lane l stores what it finds at `in + 16 l` as row l, as many words as hold elements, and loads the matrices. */
function textOf(form: Form, offset = 0): string {
  const registers = registersOf(form);
  const list = Array.from({ length: registers }, (_, j) => `%r${8 + j}`).join(", ");
  const words = form.bits / 2;
  return kernel(
    `ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
mov.u32 %r0, sm; mad.lo.u32 %r0, %t, 16, %r0; mad.wide.u32 %d1, %t, 16, %d1; mad.wide.u32 %d2, %t, 16, %d2;
${Array.from({ length: words }, (_, k) => `ld.global.b32 %r1, [%d1+${4 * k}]; st.shared.b32 [%r0+${4 * k}], %r1;`).join("\n")}
bar.warp.sync 0xffffffff;
${nameOf(form)} {${list}}, [%r0+${offset}];
${Array.from({ length: registers }, (_, j) => `st.global.b32 [%d2+${4 * j}], %r${8 + j};`).join("\n")}`,
    { params: ["in", "out"], module: shared, target: "sm_100a" },
  );
}

describe("ldmatrix of narrow elements", () => {
  test.each(forms.map((form) => ({ form, name: nameOf(form) })))("$name", ({ form }) => {
    const { shape, bits } = form;
    const next = generator(bits);
    const elements = Uint8Array.from({ length: 512 }, () => Math.floor(next() * 2 ** bits));
    const rows = new Uint8Array(512);
    for (let row = 0; row < 32; row++) {
      let packed = 0n;
      for (let k = 15; k >= 0; k--) packed = (packed << BigInt(bits)) | BigInt(elements[16 * row + k] ?? 0);
      for (let k = 0; k < 16; k++) rows[16 * row + k] = Number((packed >> BigInt(8 * k)) & 255n);
    }
    const device = machine(textOf(form));
    const out = device.blank(512);
    clean(device.launch("k", 1, 32, [device.put(rows), out]));
    for (let lane = 0; lane < 32; lane++) {
      const bytes = device.emulator.read(out + BigInt(16 * lane), 4 * registersOf(form));
      bytes.forEach((byte, at) => {
        const [r, b, g, t] = [at >> 2, at & 3, lane >> 2, lane & 3];
        const [row, k] =
          shape === "m8n16" ? [8 * r + g, 4 * t + b] : [16 * (r >> 1) + 4 * t + b, g + 8 * (r & 1)];
        expect(byte, `lane ${lane}, byte ${at}`).toBe(elements[16 * row + k]);
      });
    }
  });

  test("the transposed fragments are A of mma.m16n8k32 with integers", () => {
    // D = A * 1: with B all ones each row of D is the sum of a row of A, a column of what was stored.
    const text = kernel(
      `ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
mov.u32 %r0, sm; mad.lo.u32 %r0, %t, 16, %r0; mad.wide.u32 %d1, %t, 16, %d1;
ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%d1]; st.shared.v4.b32 [%r0], {%r1, %r2, %r3, %r4};
bar.warp.sync 0xffffffff;
ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r8, %r9, %r10, %r11}, [%r0];
mov.b32 %r1, 0x01010101; mov.b32 %r2, 0;
mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%r4, %r5, %r6, %r7}, {%r8, %r9, %r10, %r11}, {%r1, %r1}, {%r2, %r2, %r2, %r2};
mad.wide.u32 %d2, %t, 16, %d2; st.global.v4.b32 [%d2], {%r4, %r5, %r6, %r7};`,
      { params: ["in", "out"], module: shared, target: "sm_100a" },
    );
    const next = generator(5);
    const stored = Uint8Array.from({ length: 512 }, () => Math.floor(next() * 256));
    const device = machine(text);
    const out = device.blank(512);
    clean(device.launch("k", 1, 32, [device.put(stored), out]));
    const got = device.i32(out, 128);
    for (let row = 0; row < 16; row++) {
      const sum = Array.from({ length: 32 }, (_, k) => stored[16 * k + row] ?? 0).reduce((x, y) => x + y);
      expect(got[16 * (row % 8) + (row < 8 ? 0 : 2)]).toBe(sum);
    }
  });

  test("rows that are no multiple of 16 bytes apart fault, padding need not be written", () => {
    const form = { shape: "m8n16", count: 4, bits: 6 } as const;
    const device = machine(textOf(form, 4));
    const report = device.launch("k", 1, 32, [device.put(new Uint8Array(512)), device.blank(512)]);
    expect(report.findings.map((f) => f.rule)).toEqual(["H004"]);
  });
});
