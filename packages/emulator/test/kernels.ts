/**
 * Small kernels whose time is measured beside matrix products: they move memory, meet at atomics, or wait by asking again and again. A run is one launch, which
 * has to be clean.
 */
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Checked } from "@tilewright/core";
import type { createEmulator, LaunchConfig } from "../src/index.ts";

type Config = Pick<LaunchConfig, "checks" | "disable" | "order" | "seed">;

export interface Kernel {
  readonly name: string;
  /** The kernel that does the same by plain stores, or waits instead of polling. */
  readonly beside: string | null;
  /** Its launch on a device of its own, which returns the warp-instructions that were executed. */
  readonly on: (create: typeof createEmulator) => (config: Config) => number;
}

function value<T>(checked: Checked<T>): T {
  if (!checked.ok) throw new Error(checked.error.map((d) => d.message).join("\n"));
  return checked.value;
}

const cuda = (file: string): string =>
  readFileSync(fileURLToPath(new URL(`./cuda/${file}.ptx`, import.meta.url)), "utf8");

const wrap = (body: string): string => `.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel(.param .u64 in, .param .u64 out)
{
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %d<8>; .reg .f32 %f<8>;
.shared .align 8 .b64 bar; .shared .align 16 .b8 room[4096];
ld.param.u64 %d0, [in]; ld.param.u64 %d1, [out];
mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 256, %r0;
${body}
ret;
}
`;

/** Eight elements a thread, a grid's width apart. */
const eight = (body: string): string =>
  wrap(`mul.wide.u32 %d2, %r2, 4; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2; mov.u32 %r3, 0;
L: ${body}
add.u64 %d0, %d0, 32768; add.u64 %d1, %d1, 32768; add.u32 %r3, %r3, 1; setp.lt.u32 %p0, %r3, 8; @%p0 bra L;`);

const store = (how: string): string =>
  eight(`ld.global.u32 %r4, [%d0]; add.u32 %r4, %r4, %r3; st.${how}global.u32 [%d1], %r4;`);

/** The warps of a block work in turn, sixty rounds in all; the others wait for the round to end. `hand`: how it ends, by lane 0. */
const relay = (hand: string, wait: string, idle = "W"): string =>
  wrap(`shr.u32 %r3, %r0, 5; and.b32 %r4, %r0, 31; setp.ne.u32 %p3, %r4, 0; mov.u32 %r5, 0; mov.f32 %f0, 0f3F800000;
mul.wide.u32 %d2, %r2, 4; add.u64 %d2, %d1, %d2; add.u64 %d2, %d2, 4096; mul.wide.u32 %d3, %r1, 4; add.u64 %d1, %d1, %d3;
setp.ne.u32 %p0, %r0, 0; @!%p0 mbarrier.init.shared.b64 [bar], 8; bar.sync 0;
L: and.b32 %r6, %r5, 7; add.u32 %r7, %r5, 1; setp.ne.u32 %p0, %r6, %r3; @%p0 bra ${idle};
mov.u32 %r8, 0;
S: fma.rn.f32 %f0, %f0, %f0, 0fBF000000; st.global.f32 [%d2], %f0; add.u32 %r8, %r8, 1; setp.lt.u32 %p0, %r8, 100; @%p0 bra S;
bar.warp.sync -1; @%p3 bra W;
${hand}
W: bar.warp.sync -1;
${wait}
E: bar.warp.sync -1; add.u32 %r5, %r5, 1; setp.lt.u32 %p0, %r5, 60; @%p0 bra L;`);

const arrive = "mbarrier.arrive.shared.b64 _, [bar];";
const asked = (form: string): string =>
  `@!%p3 ${arrive}
and.b32 %r9, %r5, 1;\nV: mbarrier.${form}.parity.shared.b64 %p1, [bar], %r9; @!%p1 bra V;`;
const flag = (read: string): string => `V: ${read} setp.lt.u32 %p1, %r10, %r7; @%p1 bra V;`;
const release = "st.release.gpu.global.u32 [%d1], %r7;";

const data = Float32Array.from({ length: 1 << 16 }, (_, k) => ((k * 7919) % 1000) / 1000 + 1);
const keys = Uint32Array.from({ length: 1 << 16 }, (_, k) => (k * 7919) & 255);

/** `sizes`: its parameters behind the buffers. */
function kernel(
  name: string,
  beside: string | null,
  text: string,
  shape: Pick<LaunchConfig, "grid" | "block">,
  { entry = "kernel", sizes = [] as readonly number[], values = data as Float32Array | Uint32Array } = {},
): Kernel {
  return {
    name,
    beside,
    on: (create) => {
      const emulator = create();
      const module = value(emulator.load(text));
      const buffers = (module.kernels.find((k) => k.entry === entry)?.params.length ?? 0) - sizes.length;
      const bytes = new Uint8Array(values.buffer);
      const pointers = Array.from({ length: buffers }, () => value(emulator.alloc(bytes.length)));
      return (config) => {
        for (const pointer of pointers) emulator.write(pointer, bytes);
        const report = value(
          emulator.launch(module, entry, { ...config, ...shape, params: [...pointers, ...sizes] }),
        );
        if (!report.completed || report.findings.length > 0)
          throw new Error(
            `${name} is not clean: ${report.findings.map((f) => `${f.rule} ${f.message}`).join("\n")}`,
          );
        return report.counters.warpInstructions;
      };
    },
  };
}

const handwritten = (name: string, beside: string | null, text: string, grid: number): Kernel =>
  kernel(name, beside, text, { grid: [grid, 1, 1], block: [256, 1, 1] }, { values: keys });

const compiled = (
  name: string,
  file: string,
  entry: string,
  grid: LaunchConfig["grid"],
  block: LaunchConfig["block"],
  sizes: readonly number[],
): Kernel => kernel(name, null, cuda(file), { grid, block }, { entry, sizes });

export const kernels: readonly Kernel[] = [
  handwritten("elementwise", null, store(""), 32),
  handwritten(
    "elementwise by 16 bytes",
    null,
    wrap(`mul.wide.u32 %d2, %r2, 16; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d0]; add.f32 %f0, %f0, %f1; add.f32 %f2, %f2, %f3; st.global.v4.f32 [%d1], {%f0, %f1, %f2, %f3};`),
    64,
  ),
  compiled("reduction", "reduce", "reduce_sum", [32, 1, 1], [256, 1, 1], [65536]),
  compiled("softmax", "neural", "softmax", [32, 1, 1], [256, 1, 1], [256, 256]),
  compiled("transpose", "reduce", "transpose", [8, 8, 1], [32, 8, 1], [256, 256]),
  compiled("layer norm", "neural", "layernorm", [64, 1, 1], [256, 1, 1], [1024, 1e-5]),
  handwritten(
    "histogram by atomics",
    null,
    eight(
      "ld.global.u32 %r4, [%d0]; mul.wide.u32 %d3, %r4, 4; sub.u64 %d4, %d1, %d2; red.global.add.u32 [%d4], 1;",
    )
      .replace("add.u64 %d1, %d1, 32768;", "")
      .replace("sub.u64 %d4, %d1, %d2;", "sub.u64 %d4, %d1, %d2; add.u64 %d4, %d4, %d3;"),
    32,
  ),
  handwritten("st.relaxed", "elementwise", store("relaxed.gpu."), 32),
  handwritten("st.volatile", "elementwise", store("volatile."), 32),
  handwritten("st.release", "elementwise", store("release.gpu."), 32),
  handwritten(
    "fence, st.relaxed",
    "elementwise",
    store("relaxed.gpu.").replace("L: ", "L: fence.acq_rel.gpu; "),
    32,
  ),
  handwritten("try_wait", null, relay("", asked("try_wait")), 4),
  handwritten("test_wait", "try_wait", relay("", asked("test_wait")), 4),
  handwritten("ld.acquire", "try_wait", relay(release, flag("ld.acquire.gpu.global.u32 %r10, [%d1];")), 4),
  handwritten(
    "ld.volatile",
    "try_wait",
    relay(
      `membar.gl; st.volatile.global.u32 [%d1], %r7;`,
      `${flag("ld.volatile.global.u32 %r10, [%d1];")} membar.gl;`,
    ),
    4,
  ),
  handwritten(
    "atom.or",
    "try_wait",
    relay(release, flag("atom.acquire.gpu.global.or.b32 %r10, [%d1], 0;")),
    4,
  ),
  handwritten(
    "ld.acquire by one lane",
    "try_wait",
    relay(release, `@%p3 bra E; ${flag("ld.acquire.gpu.global.u32 %r10, [%d1];")}`),
    4,
  ),
];
