/** Rules of tensor memory (H080 to H088): each with a kernel that breaks it and one close by that does not. */
import { afterAll, describe, expect, test } from "vitest";
import { type LaunchConfig, type LaunchReport, rules } from "../src/index.ts";
import { clean, orders } from "./support.ts";
import { fill, runTensor, save, type TensorKernel, vector } from "./tensor-memory.ts";

const found = new Set<string>();

function run(kernel: TensorKernel, config: Partial<LaunchConfig> = {}): LaunchReport {
  return runTensor(kernel, 4096, undefined, config).report;
}

/** The rules that were met, each once, with the messages that `want` describes. */
function expectFindings(report: LaunchReport, ...want: (string | RegExp)[]): void {
  const got = report.findings.map((f) => `${f.rule} ${f.message}`);
  for (const f of report.findings) found.add(f.rule);
  expect(got.length, got.join("\n")).toBe(want.length);
  want.forEach((w, k) => {
    if (typeof w === "string") expect(got[k]).toBe(w);
    else expect(got[k]).toMatch(w);
  });
}

const load = (count: number, at = "%tw"): string =>
  `tcgen05.ld.sync.aligned.32x32b.x${count}.b32 ${vector("v", count)}, [${at}]; tcgen05.wait::ld.sync.aligned;`;
const both = (after: boolean, before = true): string =>
  `${before ? "tcgen05.fence::before_thread_sync;" : ""} bar.sync 0; ${after ? "tcgen05.fence::after_thread_sync;" : ""}`;
const commit = "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%bar];";
const wait = "WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%bar], 0; @!%p2 bra WAIT;";
const shift = "tcgen05.shift.cta_group::1.down [%ta];";
const after = "tcgen05.fence::after_thread_sync;";

describe("columns and lanes", () => {
  test("H080 columns that are not allocated", () => {
    expectFindings(
      run({ columns: 32, body: `${fill(32)} ${load(2, "%tw+31")}` }),
      "H080 columns 31 to 32 of block rank 0 are used; only 0 to 31 are allocated",
    );
    expectFindings(
      run({
        columns: 32,
        alloc: "",
        dealloc: "",
        body: `mov.u32 %tw, 0; shl.b32 %tw, %warp, 21; ${load(1)}`,
      }),
      /^H006 lane 0 reads 4 bytes of shared memory/,
      "H080 columns 0 to 0 of block rank 0 are used; none are allocated",
    );
    clean(run({ columns: 32, body: `${fill(32)} ${load(2, "%tw+30")}` }));
  });
  test("H081 columns that nothing has written", () => {
    expectFindings(
      run({ body: `${fill(4)} ${load(8)}` }),
      /^H081 column 4 of lanes \d+ to \d+ is read; nothing has written it since the allocation$/,
    );
    clean(run({ body: `${fill(8)} ${load(8)}` }));
  });
  test("H082 lanes of other warps", () => {
    expectFindings(
      run({ body: `${fill(4)} bar.sync 0; setp.eq.u32 %p0, %warp, 1; @!%p0 bra GO; ${load(4, "%ta")} GO:` }),
      "H082 warp 1 reaches lanes 32 to 63, in pieces of 32; the address is 0x0 (lane 0, column 0)",
    );
    expectFindings(
      run({
        body: `${fill(4)} add.u32 %r0, %tw, 0x80000; tcgen05.ld.sync.aligned.16x64b.x1.b32 {%v0}, [%r0]; tcgen05.wait::ld.sync.aligned;`,
      }),
      /^H082 warp (\d) reaches lanes \d+ to \d+, in pieces of 16; the address is 0x\d80000 \(lane \d+, column 0\)$/,
    );
    // Seven bits of the lane count.
    clean(run({ body: `${fill(4)} add.u32 %tw, %tw, 0x800000; ${load(4)}` }));
  });
  test("H082 an address that differs between lanes", () => {
    expectFindings(
      run({ body: `${fill(64)} and.b32 %r0, %t, 1; add.u32 %tw, %tw, %r0; ${load(4)}` }),
      /^H082 lane 0 gives address 0x\d+ \(lane (\d+), column 0\), lane 1 gives 0x\d+ \(lane \1, column 1\)$/,
    );
  });
});

describe("order", () => {
  const thread = (text: string, ...rest: string[]): string =>
    `${both(true)} @!%one bra WAIT; ${text} ${commit} ${wait} ${rest.join(" ")}`;
  test("H083 a load before the store of the same warp is complete", () => {
    const store = fill(4).replace("tcgen05.wait::st.sync.aligned;", "");
    for (const order of orders)
      expectFindings(
        run({ body: `${store} ${load(4)}` }, { order }),
        /^H083 column 0 of lanes \d+ and up is read while tcgen05.st.* \(line \d+\) still writes it$/,
        // The other warps' barrier at the end has not waited for the stores either.
        /^H083 columns 0 to 127 are given back while tcgen05.st.*may still use them$/,
      );
    clean(run({ body: `${fill(4)} ${load(4)}` }));
  });
  test("H083 a load while the tensor core is at work", () => {
    const race = `${fill(8)} ${both(true)} @!%one bra GO; ${shift} ${commit} GO: ${load(8)} ${wait}`;
    expect(run({ body: race }).findings[0]?.message).toMatch(
      /^column 0 of lanes 0 and up is read while tcgen05.shift.* still writes it$/,
    );
    clean(run({ body: `${fill(8)} ${thread(shift, after, load(8))}` }));
  });
  test("H083 columns given back in use", () => {
    const report = run({
      body: `${fill(8)} ${both(true)} @!%one bra GO; ${shift} ${commit} GO:`,
    });
    expect(report.findings.map((f) => f.rule)).toContain("H083");
    expect(report.findings.map((f) => f.message).join()).toMatch(
      /columns 0 to 127 are given back while tcgen05.shift.* of warp 0 in block rank 0 may still use them/,
    );
  });
  test("H083 columns used before the allocation is published", () => {
    const publish = "bar.sync 0;";
    const { report } = runTensor({ publish: "", body: "bar.sync 0;" }, 16);
    expect(report.findings.length).toBeGreaterThan(0);
    const early = run({
      publish: "",
      body: `mov.u32 %ta, 0; shl.b32 %tw, %warp, 21; ${fill(1)}`,
    });
    expect(early.findings.map((f) => f.message).join()).toMatch(
      /column 0 is used with no synchronisation after warp 0 of block rank 0 allocated it|none are allocated/,
    );
    clean(run({ publish, body: fill(1) }));
  });
  test("H084 no fence after the synchronisation", () => {
    for (const order of orders)
      expectFindings(
        run({ body: `${fill(8)} ${thread(shift, load(8))}` }, { order }),
        /^H084 column 0 of lanes 0 and up is read after tcgen05.shift\S+ \(line \d+\) with no tcgen05.fence::after_thread_sync in this warp$/,
      );
    expectFindings(
      run({
        body: `${fill(8)} ${both(false)} @!%one bra WAIT; add.u32 %ta, %ta, 0x200000; ${shift} ${commit} ${wait} ${after}`,
      }),
      /^H084 column 0 of lanes 32 and up is read after tcgen05.st/,
    );
  });
  test("H085 no fence before the synchronisation is a note", () => {
    const report = run({
      threads: 256,
      body: `setp.lt.u32 %p0, %warp, 4; @!%p0 bra GO; ${fill(8)} GO: ${both(true, false)} @%p0 bra END2; ${load(8)} END2:`,
    });
    expectFindings(
      report,
      /^H085 column 0 of lanes \d+ and up is read after tcgen05.st\S* \(line \d+\) of warp \d, which made no tcgen05.fence::before_thread_sync in between$/,
    );
    expect(report.findings[0]?.severity).toBe("note");
    clean(
      run({
        threads: 256,
        body: `setp.lt.u32 %p0, %warp, 4; @!%p0 bra GO; ${fill(8)} GO: ${both(true)} @%p0 bra END2; ${load(8)} END2:`,
      }),
    );
  });
  test("between threads, instructions of the tensor core need fences only", () => {
    // Warp 1 shifts what warp 0 has shifted, with no wait for completion: only the second shift is committed.
    const piped = (fence: string): string => `${fill(8)} ${both(true)} @!%one bra HAND; ${shift} HAND:
      tcgen05.fence::before_thread_sync; bar.sync 0; ${fence}
      setp.eq.u32 %p3, %t, 32; @!%p3 bra WAIT; ${shift} ${commit} ${wait} ${after} ${load(8)}`;
    expectFindings(
      run({ body: piped("") }),
      /^H083 column 0 of lanes 0 and up is read while tcgen05.shift\S+ \(line \d+\) still writes it$/,
    );
    clean(run({ body: piped(after) }));
  });
  test("a relaxed barrier with both fences orders tensor memory", () => {
    const relaxed = wait.replace("parity.", "parity.relaxed.cluster.");
    clean(
      run({
        body: `${fill(8)} ${both(true)} @!%one bra WAIT; ${shift} ${commit} ${relaxed} ${after} ${load(8)}`,
      }),
    );
  });
});

describe("registers of a load", () => {
  const twice = "tcgen05.ld.sync.aligned.32x32b.x4.b32 {%v0,%v1,%v2,%v3}, [%tw];";
  test("H086 read before the wait", () => {
    for (const order of orders)
      expectFindings(
        run({ body: `${fill(4)} ${twice} add.u32 %r0, %v1, 1; tcgen05.wait::ld.sync.aligned;` }, { order }),
        /^H086 %v1 is read by warp \d while a tcgen05.ld in flight writes it$/,
      );
    clean(
      run({
        body: `${fill(4)} ${twice} add.u32 %r0, %u1, 1; tcgen05.wait::ld.sync.aligned; add.u32 %r0, %v1, 1;`,
      }),
    );
  });
  test("H086 written before the wait, by an instruction or another load", () => {
    expectFindings(
      run({ body: `${fill(4)} ${twice} mov.u32 %v3, 0; tcgen05.wait::ld.sync.aligned;` }),
      /^H086 %v3 is written by warp \d while a tcgen05.ld in flight writes it$/,
    );
    expectFindings(
      run({ body: `${fill(4)} ${twice} ${twice} tcgen05.wait::ld.sync.aligned;` }),
      /^H086 %v0 is written by warp \d while a tcgen05.ld in flight writes it$/,
    );
  });
  test("results are not there before the wait when completion is late", () => {
    const early = `${fill(4)} ${twice} mov.u32 %r0, %v1; tcgen05.wait::ld.sync.aligned; mov.u32 %v0, %r0; ${save(1)}`;
    expect(runTensor({ body: early }, 128, undefined, { order: "eager" }).out[0]).toBe(1);
    expect(runTensor({ body: early }, 128, undefined, { order: "lazy" }).out[0]).not.toBe(1);
  });
});

describe("the allocator", () => {
  const alloc = (columns: number | string, slot = "%slot"): string =>
    `tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [${slot}], ${columns};`;
  const dealloc = (column: number | string, columns: number | string): string =>
    `mov.u32 %r20, ${column}; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r20, ${columns};`;
  const relinquish = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;";
  test("H087 after relinquish_alloc_permit", () => {
    expectFindings(
      run({ alloc: `${alloc(32)} ${relinquish} ${alloc(32, "%slot+4")}`, columns: 32, body: "" }),
      "H087 the block has executed tcgen05.relinquish_alloc_permit before",
    );
    clean(run({ alloc: `${alloc(32)} ${relinquish}`, columns: 32, body: "" }));
  });
  test("H087 sizes", () => {
    expectFindings(
      run({ alloc: `mov.u32 %r0, 48; ${alloc("%r0")}`, dealloc: "", body: "" }),
      "H087 48 columns; a power of two from 32 to 512 is needed",
      /^H006/,
    );
    expectFindings(
      run({
        alloc: `${alloc(32)} ${alloc(64, "%slot+4")}`,
        dealloc: `${dealloc(0, 32)} ${dealloc(64, 64)}`,
        body: "",
      }),
      "H087 64 columns after an allocation of 32: sizes may not rise",
    );
    clean(
      run({
        alloc: `${alloc(64)} ${alloc(32, "%slot+4")}`,
        dealloc: `${dealloc(0, 64)} ${dealloc(64, 32)}`,
        body: "",
      }),
    );
  });
  test("H087 and H088 giving back what is not allocated", () => {
    expectFindings(
      run({ columns: 64, dealloc: dealloc(0, 32), body: "" }),
      "H087 32 columns at 0 are given back; allocated are 64 columns at 0",
      "H088 block rank 0 ends with columns 0 to 63 still allocated",
    );
    expectFindings(
      run({ columns: 32, dealloc: `${dealloc(0, 32)} ${dealloc(0, 32)}`, body: "" }),
      "H087 32 columns at 0 are given back; allocated are none",
    );
  });
  test("H087 cta_groups mixed", () => {
    const report = run({
      columns: 32,
      group: 2,
      body: "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;",
    });
    expectFindings(report, "H087 cta_group::1 here, while the kernel has used cta_group::2 before");
  });
  test("H087 cta_group::2 without a peer", () => {
    const report = run(
      { columns: 32, group: 2, dealloc: "", body: "" },
      { grid: [1, 1, 1], cluster: [1, 1, 1] },
    );
    expect(report.findings[0]?.message).toBe(
      "cta_group::2 in block rank 0 of a cluster of 1: it has no peer",
    );
  });
  test("H088 a leak", () => {
    expectFindings(
      run({ columns: 128, dealloc: "", body: "" }),
      "H088 block rank 0 ends with columns 0 to 127 still allocated",
    );
  });
  test("H088 the tensor core comes to an instruction when a block has exited", () => {
    const report = run(
      { columns: 32, body: `${fill(8)} ${both(true)} @!%one bra GO; ${shift} GO:` },
      { order: "lazy" },
    );
    expect(report.findings.map((f) => f.rule)).toEqual(["H083", "H088"]);
    for (const f of report.findings) found.add(f.rule);
  });
  test("H030 an allocation that can never be granted says so", () => {
    const report = run({
      columns: 512,
      alloc: `${alloc(512)} ${alloc(512, "%slot+4")}`,
      body: "",
    });
    expect(report.findings[0]?.message).toMatch(/512 columns of tensor memory, 512 of 512 are allocated/);
  });
  test("H030 a pair whose second block does not take part", () => {
    const report = run({
      group: 2,
      columns: 32,
      alloc:
        "setp.ne.u32 %p0, %rank, 0; @%p0 bra SHARED; tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%slot], 32;",
      body: "",
    });
    expect(report.findings[0]?.message).toMatch(/the peer, block rank 1, in tcgen05.alloc/);
  });
});

describe("copies and shifts", () => {
  /** 32 rows of 16 bytes: K contiguous, no swizzle; eight rows are 128 bytes. */
  const descriptor = (address: number, version = 1n): bigint =>
    BigInt(address >> 4) | (8n << 16n) | (8n << 32n) | (version << 46n);
  const fillShared =
    "mov.u32 %r4, s; mad.lo.u32 %r4, %t, 16, %r4; mov.u32 %v0, 1; st.shared.v4.u32 [%r4], {%v0,%v0,%v0,%v0}; fence.proxy.async.shared::cta;";
  const copy = (word: bigint, target = "%ta", prepare = fillShared): string =>
    `${prepare} ${both(true)} mov.b64 %d3, ${word}; @!%one bra WAIT; add.u32 %r7, ${target}, 0;
    tcgen05.cp.cta_group::1.32x128b.warpx4 [%r7], %d3; ${commit} ${wait} ${after}`;
  test("a copy with nothing wrong", () => clean(run({ body: copy(descriptor(0)) })));
  test("H006 of shared memory that nothing has written", () => {
    expectFindings(
      run({ body: copy(descriptor(2048)) }),
      "H006 the copy takes in shared address 0x800, which nothing has written",
    );
  });
  test("H033 of generic writes without a proxy fence", () => {
    const report = run({
      body: copy(descriptor(0), "%ta", fillShared.replace("fence.proxy.async.shared::cta;", "")),
    });
    expect(report.findings.map((f) => f.rule)).toEqual(["H033"]);
  });
  test("H071 by a descriptor of wgmma", () => {
    const report = run({ body: copy(descriptor(0, 0n)) });
    expect(report.findings.map((f) => f.rule)).toEqual(["H071"]);
    expect(report.findings[0]?.message).toMatch(/bits 46 to 48 are 0b000/);
  });
  test("H080 and H082 to places that do not exist", () => {
    expectFindings(
      run({ columns: 32, body: copy(descriptor(0), "0x1e") }),
      "H080 columns 30 to 33 of block rank 0 are used; only 0 to 31 are allocated",
    );
    expectFindings(
      run({ body: copy(descriptor(0), "0x100000") }),
      "H082 the copy to 0x100000 (lane 16, column 0) reaches beyond lane 127",
    );
    expectFindings(
      run({
        body: `${fill(8)} ${both(true)} @!%one bra WAIT; add.u32 %ta, %ta, 0x10000; ${shift} ${commit} ${wait} ${after} sub.u32 %ta, %ta, 0x10000;`,
      }),
      "H082 the address 0x10000 (lane 1, column 0) does not start at a quarter of the lanes",
    );
  });
});

describe("commit", () => {
  test("H040 onto a barrier that is not there", () => {
    const report = run({
      body: `${both(true)} @!%one bra GO; ${commit.replace("%bar", "%bar+8")} GO:`,
    });
    expect(report.findings.map((f) => f.rule)).toEqual(["H040"]);
  });
  test("H023 issued by a whole warp", () => {
    const report = run({ body: `${both(true)} @%first bra WAIT; ${commit} ${wait}` });
    expect(report.findings.map((f) => f.message)).toEqual([
      "issued by lanes 0xffffffff of warp 0; one thread issues it",
    ]);
  });
});

afterAll(() => {
  const own = Object.keys(rules).filter((rule) => rule >= "H080" && rule <= "H088");
  expect([...found].filter((rule) => own.includes(rule)).sort()).toEqual(own);
});
