/** The table against the assembler: each feature's instruction assembles for exactly the targets that list it. */
import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { type Feature, features, hasFeature } from "../../src/target.ts";
import { targets } from "../../src/targets/table.ts";

function ptxasVersion(): string | null {
  try {
    return /release (\d+\.\d+)/.exec(execFileSync("ptxas", ["--version"], { encoding: "utf8" }))?.[1] ?? null;
  } catch {
    return null;
  }
}
const release = ptxasVersion();

const r4 = "{%r0,%r1,%r2,%r3}";
const f4 = "{%f0,%f1,%f2,%f3}";
/** One instruction per feature, in its plainest form. */
const samples: Readonly<Record<Feature, string>> = {
  "cp.async": "cp.async.ca.shared.global [%r0], [%rd0], 16;",
  ldmatrix: `ldmatrix.sync.aligned.m8n8.x4.shared.b16 ${r4}, [%r0];`,
  "tanh.approx": "tanh.approx.f32 %f0, %f1;",
  stmatrix: `stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r0], ${r4};`,
  "mma.f16": `mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 ${f4}, {%r0,%r1}, {%r2}, ${f4};`,
  "mma.bf16": `mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 ${f4}, ${r4}, {%r0,%r1}, ${f4};`,
  "mma.tf32": `mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 ${f4}, ${r4}, {%r0,%r1}, ${f4};`,
  "mma.f64": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%fd0,%fd1}, {%fd0}, {%fd1}, {%fd0,%fd1};",
  "mma.s8": "mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%r0,%r1}, {%r2}, {%r3}, {%r0,%r1};",
  "mma.e4m3": `mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 ${f4}, ${r4}, {%r0,%r1}, ${f4};`,
  "mma.blockScale": `mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 ${f4}, ${r4}, {%r0,%r1}, ${f4}, {%r0}, {0, 0}, {%r1}, {0, 0};`,
  mbarrier: "mbarrier.init.shared.b64 [%r0], 1;",
  tma: "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r0], [%rd0, {%r1,%r2}], [%r3];",
  "tma.gather4":
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r0], [%rd0, {%r1,%r2,%r2,%r3,%r3}], [%r3];",
  cluster: "barrier.cluster.arrive.aligned;",
  wgmma: "wgmma.fence.sync.aligned;",
  setmaxnreg: "setmaxnreg.inc.sync.aligned.u32 232;",
  "tcgen05.i8":
    "{ .reg .pred p; setp.eq.b32 p, %r0, %r1; tcgen05.mma.cta_group::1.kind::i8 [%r0], %rd0, %rd1, %r1, p; }",
  tcgen05: "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 128;",
  "max.NaN": "max.NaN.f32 %f0, %f1, %f2;",
  "min.xorsign": "min.xorsign.abs.f32 %f0, %f1, %f2;",
  clc: "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r0], [%r1];",
  pdl: "griddepcontrol.wait;",
  "red.vector": `red.relaxed.gpu.global.add.v4.f32 [%rd0], ${f4};`,
  f32x2: "fma.rn.f32x2 %rd0, %rd0, %rd1, %rd0;",
  "cvt.e2m1": "cvt.rn.satfinite.e2m1x2.f32 %b0, %f0, %f1;",
};

describe.skipIf(release === null)("ptxas", () => {
  const folder = mkdtempSync(join(tmpdir(), "tilewright-targets-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const known = release === null ? "" : execFileSync("ptxas", ["--help"], { encoding: "utf8" });

  /** Lines of the body, from 0, that ptxas refuses for a target; null where it makes a cubin. */
  function refusedLines(arch: string, version: string, body: string): ReadonlySet<number> | null {
    const file = join(folder, "k.ptx");
    const registers = ".reg .b32 %r<4>; .reg .b64 %rd<2>; .reg .f32 %f<4>; .reg .f64 %fd<2>; .reg .b8 %b<1>;";
    const head = `.version ${version}\n.target ${arch}\n.address_size 64\n.visible .entry k() .reqntid 128\n{\n${registers}\n`;
    writeFileSync(file, `${head}${body}\nret;\n}\n`);
    // ptxas 13 makes no sm_70 code, but checks sm_70 text as such.
    const output = arch === "sm_70" && !known.includes("'sm_70'") ? "sm_75" : arch;
    const { status, stderr } = spawnSync("ptxas", ["-arch", output, file, "-o", join(folder, "k.cubin")], {
      encoding: "utf8",
    });
    if (status === 0) return null;
    const first = head.split("\n").length;
    return new Set([...stderr.matchAll(/line (\d+); error/g)].map(([, line]) => Number(line) - first));
  }

  // Every version that first knows a target is older than the release that has all of them.
  const newest = release !== null && Number(release) >= 13 ? "9.0" : "8.8";

  test.each(targets.map((target) => ({ arch: target.arch, target })))(
    "$arch: minimum PTX version and features",
    ({ target }) => {
      const [major, minor] = target.minPtx;
      // Made for sm_75 instead of sm_70, the text needs sm_75's version.
      expect(refusedLines(target.arch, target.arch === "sm_70" ? "6.3" : `${major}.${minor}`, "")).toBeNull();
      if (target.major >= 8)
        expect(
          refusedLines(target.arch, minor === 0 ? `${major - 1}.8` : `${major}.${minor - 1}`, ""),
        ).not.toBeNull();
      const bodyOf = (some: readonly Feature[]): string => some.map((feature) => samples[feature]).join("\n");
      // ptxas names every line that it refuses; without these it makes code of all others.
      const refused = refusedLines(target.arch, newest, bodyOf(features));
      const accepted = features.filter((_, i) => !refused?.has(i));
      expect(accepted).toEqual(features.filter((feature) => hasFeature(target, feature)));
      expect(refusedLines(target.arch, newest, bodyOf(accepted))).toBeNull();
    },
  );
});
