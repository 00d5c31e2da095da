/** Every rule has a kernel that breaks it, with its message pinned, and a kernel close by that does not. */
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { type LaunchConfig, type LaunchReport, rules } from "../src/index.ts";
import { clean, kernel, machine, orders } from "./support.ts";

const shared = ".shared .align 16 .b8 s[4096];";

/** Run kernel `k` with one buffer `out` of 4096 bytes, written unless `blank`. */
function run(
  body: string,
  threads: number,
  rest: Partial<LaunchConfig> & { readonly blank?: boolean } = {},
): LaunchReport {
  const { blank = false, ...config } = rest;
  const device = machine(kernel(body, { module: shared, target: "sm_90" }));
  const out = blank ? device.blank(4096) : device.put(new Uint8Array(4096));
  return device.launch("k", 1, threads, [out], { fuel: 1e6, ...config });
}
const seen = (report: LaunchReport): string[] => report.findings.map((f) => `${f.rule} ${f.message}`);
const found = new Set<string>();
/** The report's findings, as rule and message; notes the rules for the last test. */
function expectFindings(report: LaunchReport, ...want: (string | RegExp)[]): void {
  const got = seen(report);
  for (const f of report.findings) {
    found.add(f.rule);
    expect(f.location, f.rule).not.toBeNull();
  }
  expect(got.length, got.join("\n")).toBe(want.length);
  want.forEach((w, k) => {
    if (typeof w === "string") expect(got[k]).toBe(w);
    else expect(got[k]).toMatch(w);
  });
}

/** %d0 = out, %r0 = shared address of the thread's word. */
const head = `ld.param.u64 %d0, [out]; cvta.to.global.u64 %d0, %d0;
  mad.wide.u32 %d1, %t, 4, %d0; mov.u32 %r1, s; mad.lo.u32 %r0, %t, 4, %r1;`;

describe("bounds and alignment", () => {
  test("H001 past the end of a buffer; the launch stops", () => {
    const report = run(`${head} st.global.u32 [%d1+4092], %t;`, 32);
    expectFindings(
      report,
      /^H001 lane 1 writes 4 bytes at 0x7f00[0-9a-f]{8}, 4 bytes past the end of the allocation of 4096 bytes at 0x7f00[0-9a-f]{8}$/,
    );
    expect(report.completed).toBe(false);
    expect(report.findings[0]?.instruction).toBe("st.global.u32 [%d1+4092], %t;");
    expect(report.findings[0]?.location?.line).toBe(16);
  });
  test("H001 null, truncated and shared addresses", () => {
    expectFindings(
      run(`mov.b64 %d1, 16; ld.global.u32 %r1, [%d1];`, 1),
      "H001 lane 0 reads 4 bytes at 0x000000010, which is no device address",
    );
    expectFindings(
      run(`${head} cvt.u32.u64 %r2, %d0; cvt.u64.u32 %d2, %r2; st.global.u32 [%d2], %t;`, 1),
      /^H001 lane 0 writes 4 bytes at 0x0\w+, which is no device address$/,
    );
    expectFindings(
      run(`${head} st.shared.u32 [%r1+4096], %t;`, 1),
      "H001 lane 0 accesses 4 bytes at shared address 0x1000; the block has 4096 bytes",
    );
  });
  test("H002 use after free", () => {
    const device = machine(kernel(`${head} st.global.u32 [%d1], %t;`, { module: shared }));
    const out = device.blank(4096);
    device.emulator.free(out);
    expectFindings(
      device.launch("k", 1, 1, [out]),
      /^H002 lane 0 writes 4 bytes at 0x7f00\w+, in the allocation of 4096 bytes at 0x7f00\w+, which has been freed$/,
    );
  });
  test("H003 an address in the wrong window", () => {
    expectFindings(
      run(`mov.u64 %d1, s; cvta.shared.u64 %d1, %d1; ld.global.u32 %r1, [%d1];`, 1),
      /^H003 lane 0 reads 4 bytes at 0x7e0100000000, which is a shared address$/,
    );
    expectFindings(
      run(`${head} cvta.to.shared.u64 %d2, %d0;`, 1),
      /^H003 lane 0 converts 0x7f00\w+ \(global\) to a shared address$/,
    );
  });
  test("generic addresses reach every window", () => {
    const body = `${head} .local .align 8 .b8 l[64];
      mov.u64 %d2, s; cvta.shared.u64 %d2, %d2; st.u32 [%d2+8], 7; ld.shared.u32 %r2, [s+8];
      mov.u64 %d3, l; cvta.local.u64 %d3, %d3; st.u32 [%d3+4], %r2; ld.u32 %r3, [%d3+4];
      st.u32 [%d1], %r3; ld.u32 %r4, [%d1]; add.u32 %r4, %r4, %r3; st.global.u32 [%d1], %r4;`;
    const device = machine(kernel(body, { module: shared }));
    const out = device.put(new Uint8Array(128));
    clean(device.launch("k", 1, 1, [out]));
    expect(device.u32(out, 1)[0]).toBe(14);
  });
  test("H004 misaligned", () => {
    expectFindings(
      run(`${head} ld.global.v2.u32 {%r1, %r2}, [%d0+4];`, 1),
      /^H004 lane 0 reads 8 bytes at 0x7f00\w+, which is no multiple of 8$/,
    );
    expectFindings(
      run(`${head} st.shared.v4.u32 [%r0], {%t, %t, %t, %t};`, 32),
      "H004 lane 1 accesses 16 bytes at shared address 0x4, which is no multiple of 16",
    );
  });
  test("a check that is off neither reports nor stops: the access is skipped", () => {
    const report = run(`${head} st.global.u32 [%d1+4096], %t; st.global.u32 [%d1], 5;`, 32, {
      checks: ["race"],
    });
    clean(report);
  });
});

describe("uninitialised", () => {
  test("H005 global", () => {
    const body = `${head} ld.global.u32 %r2, [%d1+16];`;
    expectFindings(
      run(body, 32, { blank: true }),
      /^H005 lane 0 reads 4 bytes at 0x7f00\w+, byte 16 of the allocation of 4096 bytes at 0x7f00\w+, never written$/,
    );
    expect(run(body, 32, { blank: true }).findings[0]?.count).toBe(32);
    clean(run(body, 32));
  });
  test("H006 shared: one byte of a word is enough", () => {
    expectFindings(
      run(
        `${head} st.shared.v2.u16 [%r1], {%h0, %h0}; mov.b16 %h0, 1; st.shared.u8 [%r1+4], %h0; ld.shared.v2.u32 {%r2, %r3}, [%r1];`.replace(
          "st.shared.v2.u16 [%r1], {%h0, %h0};",
          "st.shared.u32 [%r1], %t;",
        ),
        1,
      ),
      "H006 lane 0 reads 8 bytes of shared memory at 0x0, never written",
    );
  });
  test("H007 local", () => {
    expectFindings(
      run(`.local .align 4 .b8 l[8]; st.local.u32 [l], 1; ld.local.u32 %r1, [l+4];`, 1),
      "H007 lane 0 reads 4 bytes of local memory at 0x4, never written",
    );
  });
  test("H008 a register on one path only", () => {
    const body = (set: string): string =>
      `setp.lt.u32 %p0, %t, 4; @%p0 mov.u32 %r5, 1; ${set} .local .b32 l; add.u32 %r6, %r5, 1; st.local.b32 [l], %r6;`;
    expectFindings(run(body(""), 32), "H008 lane 4 reads %r6, which it has not written");
    clean(run(body("@!%p0 mov.u32 %r5, 2;"), 32));
  });
});

describe("races in shared memory", () => {
  const write = `${head} st.shared.u32 [%r0], %t;`;
  const readOther = "xor.b32 %r2, %t, 32; mad.lo.u32 %r2, %r2, 4, %r1; ld.shared.u32 %r3, [%r2];";
  for (const order of orders) {
    test(`H009 read after write, ${order}`, () => {
      const report = run(`${write} ${readOther}`, 64, { order });
      // In the first warp to run the other's words are not even written.
      expect(
        seen(report)
          .filter((m) => m.startsWith("H009"))
          .join(),
      ).toMatch(
        /^H009 shared address 0x\w+ is read by warp \d with no synchronisation after the write by warp \d; the other access is st.shared.u32 \[%r0\], %t; \(line 16\)$/,
      );
      found.add("H009");
      clean(run(`${write} bar.sync 0; ${readOther}`, 64, { order }));
    });
    test(`H010 write after read, ${order}`, () => {
      const body = (barrier: string): string =>
        `${write} bar.sync 0; ${readOther} ${barrier} st.shared.u32 [%r0], %r3;`;
      const report = run(body(""), 64, { order });
      expect(seen(report).length).toBeGreaterThan(0);
      for (const m of seen(report))
        expect(m).toMatch(/^H0(10|09) shared address 0x\w+ is (overwritten|read) by warp \d/);
      expect(seen(report).some((m) => m.startsWith("H010"))).toBe(true);
      found.add("H010");
      clean(run(body("bar.sync 0;"), 64, { order }));
    });
    test(`H011 write after write, ${order}`, () => {
      const body = (barrier: string): string =>
        `${head} setp.lt.u32 %p0, %t, 32; @%p0 st.shared.u32 [%r0], 1; ${barrier} @!%p0 st.shared.u32 [%r0+-128], 2;`;
      expectFindings(
        run(body(""), 64, { order }),
        /^H011 shared address 0x\w+ is overwritten by warp \d with no synchronisation after the write by warp \d/,
      );
      clean(run(body("bar.sync 0;"), 64, { order }));
    });
  }
  test("H011 warps that store one value agree; one byte of it that differs is a race", () => {
    const body = (value: string): string => `${head} ${value} st.shared.v2.u32 [s], {%r2, 7}; bar.sync 0;`;
    for (const order of orders) {
      clean(run(body("mov.u32 %r2, 5;"), 128, { order }));
      expectFindings(run(body("shr.u32 %r2, %t, 6; shl.b32 %r2, %r2, 24;"), 128, { order }), /^H011 /);
    }
  });
  test("H012 lanes of one warp", () => {
    const body = (sync: string): string =>
      `${write} ${sync} xor.b32 %r2, %t, 1; mad.lo.u32 %r2, %r2, 4, %r1; ld.shared.u32 %r3, [%r2];`;
    const report = run(body(""), 32, { checks: ["race"] });
    expectFindings(
      report,
      "H012 lane 1 of warp 0 writes shared address 0x4, which lane 0 read with no bar.warp.sync between; the other access is ld.shared.u32 %r3, [%r2]; (line 16)",
      "H012 lane 1 of warp 0 reads shared address 0x0, which lane 0 wrote with no bar.warp.sync between; the other access is st.shared.u32 [%r0], %t; (line 16)",
    );
    clean(run(body("bar.warp.sync -1;"), 32));
    clean(run(body("bar.sync 0;"), 32));
  });
  test("H012 bytes of one word: each lane its own is no race, its neighbour's is one", () => {
    const body = (shift: number): string =>
      `${head} add.u32 %r0, %t, %r1; cvt.u16.u32 %h0, %t; st.shared.u8 [%r0], %h0; bar.sync 0; ld.shared.u8 %h1, [%r0];
      add.u32 %r2, %t, ${shift}; and.b32 %r2, %r2, 31; add.u32 %r2, %r2, %r1; st.shared.u8 [%r2], %h1;`;
    for (const order of orders) {
      clean(run(body(0), 32, { order }));
      const found = seen(run(body(1), 32, { order, checks: ["race"] }));
      expect(found.some((text) => /^H012 lane \d+ of warp 0 writes/.test(text))).toBe(true);
    }
  });
  test("halves of one word by different lanes and warps are no race", () => {
    clean(
      run(
        `${head} mad.lo.u32 %r2, %t, 2, %r1; cvt.u16.u32 %h0, %t; st.shared.u16 [%r2], %h0; ld.shared.u16 %h1, [%r2]; bar.sync 0; ld.shared.u32 %r3, [%r1+8];`,
        64,
      ),
    );
  });
  test("atomics do not race with one another, plain writes do", () => {
    const init = `${head} setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [s], 0;`;
    clean(
      run(`${init} bar.sync 0; atom.shared.add.u32 %r2, [s], 1; bar.sync 0; ld.shared.u32 %r3, [s];`, 128),
    );
    const report = run(`${init} atom.shared.add.u32 %r2, [s], 1;`, 128);
    expect(seen(report).some((m) => m.startsWith("H011"))).toBe(true);
  });
  test("a flag with release and acquire orders data; without them it does not", () => {
    const body = (
      store: string,
      load: string,
    ): string => `${head} setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [s+64], 0; bar.sync 0;
      shr.u32 %r4, %t, 5; setp.ne.u32 %p1, %r4, 0; setp.eq.u32 %p2, %t, 32; @%p1 bra READ;
      @!%p0 bra DONE; st.shared.u32 [s], 42; ${store}.shared.u32 [s+64], 1; bra DONE;
      READ: @!%p2 bra DONE;
      SPIN: ${load}.shared.u32 %r5, [s+64]; setp.eq.u32 %p3, %r5, 0; @%p3 bra SPIN;
      ld.shared.u32 %r6, [s]; st.global.u32 [%d0], %r6; DONE:`;
    for (const order of orders) {
      clean(run(body("st.release.cta", "ld.acquire.cta"), 64, { order }));
      expectFindings(
        run(body("st.relaxed.cta", "ld.relaxed.cta"), 64, { order }),
        /^H009 shared address 0x0 is read by warp 1/,
      );
    }
    clean(
      run(
        body("membar.cta; st.volatile", "ld.volatile").replace(
          "ld.shared.u32 %r6",
          "membar.cta; ld.shared.u32 %r6",
        ),
        64,
      ),
    );
  });
  test("named barriers order only those who meet there", () => {
    const body = (id: string): string =>
      `${write} shr.u32 %r4, %t, 6; add.u32 %r4, %r4, 1; bar.sync %r4, 64; ${id}`;
    clean(run(body(readOther), 128));
    expect(
      seen(
        run(body("xor.b32 %r2, %t, 64; mad.lo.u32 %r2, %r2, 4, %r1; ld.shared.u32 %r3, [%r2];"), 128, {
          checks: ["race"],
        }),
      ).some((m) => m.startsWith("H009")),
    ).toBe(true);
  });
});

describe("asynchronous copies", () => {
  const copy = `${head} mad.lo.u32 %r2, %t, 16, %r1; mad.wide.u32 %d2, %t, 16, %d0; cp.async.ca.shared.global [%r2], [%d2], 16; cp.async.commit_group;`;
  const own = "ld.shared.u32 %r3, [%r2];";
  const neighbour = "xor.b32 %r4, %t, 1; mad.lo.u32 %r4, %r4, 16, %r1; ld.shared.u32 %r3, [%r4];";
  const far = "xor.b32 %r4, %t, 32; mad.lo.u32 %r4, %r4, 16, %r1; ld.shared.u32 %r3, [%r4];";
  for (const order of orders) {
    test(`H013 not waited for, ${order}`, () => {
      const report = run(`${copy} ${own} cp.async.wait_group 0;`, 32, { order });
      expectFindings(
        report,
        /^H013 shared address 0x0 is read by warp 0 while a copy issued by warp 0 is still in flight; the other access is cp.async/,
      );
      clean(run(`${copy} cp.async.wait_group 0; ${own}`, 32, { order }));
    });
    test(`H013 the wrong group, ${order}`, () => {
      const two = `${copy} cp.async.ca.shared.global [%r2+1024], [%d2], 16; cp.async.commit_group;`;
      expectFindings(
        run(`${two} cp.async.wait_group 1; ld.shared.u32 %r3, [%r2+1024]; cp.async.wait_all;`, 32, { order }),
        /^H013/,
      );
      clean(
        run(`${two} cp.async.wait_group 1; ${own} cp.async.wait_all; ld.shared.u32 %r3, [%r2+1024];`, 32, {
          order,
        }),
      );
    });
    test(`H014 overwritten in flight, ${order}`, () => {
      expectFindings(
        run(`${copy} st.shared.u32 [%r2], 1; cp.async.wait_all;`, 32, { order }),
        /^H014 shared address 0x0 is overwritten by warp 0 while a copy/,
      );
    });
    test(`H015 waited for by its issuer only, ${order}`, () => {
      expectFindings(
        run(`${copy} cp.async.wait_all; ${neighbour}`, 32, { order }),
        /^H015 shared address 0x10 was copied by lane 1 of warp 0 and is used by lane 0 with no bar.warp.sync or barrier after the wait/,
      );
      const report = run(`${copy} bar.sync 0; cp.async.wait_all; ${far}`, 64, { order });
      expect(report.findings.map((f) => f.rule).every((r) => r === "H015" || r === "H013")).toBe(true);
      expect(report.findings.length).toBeGreaterThan(0);
      clean(run(`${copy} cp.async.wait_all; bar.sync 0; ${far}`, 64, { order }));
    });
  }
  test("H016 never waited for is a note", () => {
    const report = run(copy, 32);
    expectFindings(report, "H016 warp 0 exits with 1 groups of copies that it has not waited for");
    expect(report.findings[0]?.severity).toBe("note");
  });
  test("zero fill and a skipped source", () => {
    const body = `${head} setp.eq.u32 %p0, %t, 0; selp.b32 %r3, 0, 8, %p0;
      mad.lo.u32 %r2, %t, 16, %r1; cp.async.cg.shared.global [%r2], [%d0], 16, %r3; cp.async.wait_all;
      ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2]; add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7; st.global.u32 [%d1+64], %r4;`;
    const device = machine(kernel(body, { module: shared }));
    const out = device.put(Uint32Array.from({ length: 64 }, () => 1));
    clean(device.launch("k", 1, 2, [out]));
    expect(Array.from(device.u32(out, 18).slice(16))).toEqual([0, 2]);
  });
  test("bounds of the source count only the bytes that are read", () => {
    const body = `${head} mov.u32 %r3, 4; cp.async.ca.shared.global [%r1], [%d0+4092], 4; cp.async.ca.shared.global [%r1+16], [%d0+4080], 16, %r3; cp.async.wait_all;`;
    clean(run(body, 1));
    expectFindings(run(body.replace("4092", "4096"), 1), /^H001 lane 0 reads/);
  });
});

describe("barriers and warp instructions", () => {
  test("H017 a barrier in one branch of a warp", () => {
    const report = run("setp.lt.u32 %p0, %t, 7; @%p0 bra A; bar.sync 1; bra.uni B; A: bar.sync 2; B:", 32);
    expectFindings(
      report,
      /^H017 lanes 0xffffff80 of warp 0 wait here for lanes 0x7f, which wait elsewhere$/,
      /^H017 lanes 0x7f of warp 0 wait here for lanes 0xffffff80, which wait elsewhere$/,
      /^H030 block \(0,0,0\) warp 0 lanes 0x\w+ at bar.sync \d; \(line \d+\): waits for other lanes of its warp; block/,
    );
    expect(report.completed).toBe(false);
  });
  test("lanes that exit early do not hold a barrier up; lanes that come later are waited for", () => {
    clean(run("setp.lt.u32 %p0, %t, 7; @%p0 ret; bar.sync 0;", 64));
    clean(run(`setp.lt.u32 %p0, %t, 7; @!%p0 bra A; mov.u32 %r0, 1; A: bar.sync 0;`, 64));
  });
  test("H018 counts differ", () => {
    expectFindings(
      run("setp.lt.u32 %p0, %t, 32; selp.b32 %r0, 64, 96, %p0; bar.sync 1, %r0;", 64),
      "H018 barrier 1 was begun for 64 threads, here it is for 96",
    );
  });
  test("H019 operands", () => {
    expectFindings(
      run("mov.u32 %r0, 33; bar.sync 1, %r0;", 64),
      "H019 thread count 33; it has to be a positive multiple of 32",
    );
    expectFindings(run("mov.u32 %r0, 16; bar.sync %r0;", 64), "H019 barrier 16; barriers are 0 to 15");
  });
  test("H020 member masks", () => {
    expectFindings(
      run("shfl.sync.idx.b32 %r0, %t, 0, 31, 0xffff;", 32),
      "H020 lane 16 executes it, but its member mask is 0xffff",
    );
    expectFindings(
      run("setp.lt.u32 %p0, %t, 7; selp.b32 %r1, 0xff, -1, %p0; vote.sync.ballot.b32 %r0, %p0, %r1;", 32),
      "H020 lane 0 names the lanes 0xff, and lane 7 of them names 0xffffffff",
    );
    expectFindings(
      run("setp.lt.u32 %p0, %t, 7; @%p0 bra A; bar.warp.sync -1; A: vote.sync.ballot.b32 %r0, %p0, -1;", 32),
      /^H020 lanes 0xffffff80 of warp 0 wait here for lanes 0x7f, which wait elsewhere$/,
      /^H020 lanes 0x7f of warp 0 wait here/,
      /^H030/,
    );
  });
  test("H021 a shuffle from a lane that takes no part", () => {
    expectFindings(
      run("setp.lt.u32 %p0, %t, 16; @%p0 shfl.sync.down.b32 %r0, %t, 1, 31, 0xffff;", 32),
      "H021 lane 15 reads lane 16, which does not take part",
    );
  });
  test("H022 arrivals left over", () => {
    const report = run("bar.arrive 3, 128;", 64);
    expect(seen(report).join()).toMatch(
      /^H022 the block ends while barrier 3, \d+ of 128 threads have arrived, 2 warps have exited$/,
    );
    found.add("H022");
  });
  test("H023 bra.uni that is not uniform", () => {
    expectFindings(
      run("setp.lt.u32 %p0, %t, 7; @%p0 bra.uni A; mov.u32 %r0, 1; A:", 32),
      "H023 taken by lanes 0x7f of 0xffffffff",
    );
  });
  test("bar.red counts, and producer and consumer meet at named barriers", () => {
    const device = machine(
      kernel(
        `${head} and.b32 %r2, %t, 3; setp.eq.u32 %p0, %r2, 0; bar.red.popc.u32 %r3, 0, %p0; bar.red.and.pred %p1, 0, %p0; selp.b32 %r4, 1000, 0, %p1; add.u32 %r3, %r3, %r4; st.global.u32 [%d1], %r3;`,
        { module: shared },
      ),
    );
    const out = device.put(new Uint8Array(512));
    clean(device.launch("k", 1, 96, [out]));
    expect(Array.from(device.u32(out, 96))).toEqual(new Array(96).fill(24));
    // Warp 0 writes and arrives, warp 1 syncs and reads, over and over with two barriers.
    const pipeline = `${head} mov.u32 %r5, 0; setp.lt.u32 %p0, %t, 32; @!%p0 bra CONSUME;
      PRODUCE: bar.sync 1, 64; st.shared.u32 [%r0], %r5; bar.arrive 2, 64; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra PRODUCE; bra DONE;
      CONSUME: bar.arrive 1, 64; bar.sync 2, 64; ld.shared.u32 %r6, [%r0+-128]; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra CONSUME; DONE:`;
    for (const order of orders) clean(run(pipeline, 64, { order }));
  });
});

describe("launches that do not end", () => {
  test("H030 says where every warp waits", () => {
    const report = run("setp.lt.u32 %p0, %t, 32; @%p0 bar.sync 1, 64; @!%p0 bar.sync 2, 64;", 64);
    expectFindings(
      report,
      "H030 block (0,0,0) warp 0 at @%p0 bar.sync 1, 64; (line 15): barrier 1, 32 of 64 threads have arrived; block (0,0,0) warp 1 at @!%p0 bar.sync 2, 64; (line 15): barrier 2, 32 of 64 threads have arrived",
    );
    expect(report.completed).toBe(false);
  });
  test("H030 a flag that nobody sets", () => {
    expectFindings(
      run(`${head} SPIN: ld.acquire.gpu.global.u32 %r2, [%d0]; setp.eq.u32 %p0, %r2, 0; @%p0 bra SPIN;`, 32),
      /^H030 block \(0,0,0\) warp 0 at .*: polls memory that nobody writes$/,
    );
  });
  test("H031 an endless loop", () => {
    const report = run("L: add.u32 %t, %t, 1; bra L;", 32, { fuel: 5000 });
    expectFindings(report, "H031 5000 warp-instructions were allowed");
    expect(report.completed).toBe(false);
  });
  test("H032 trap", () => {
    expectFindings(run("setp.eq.u32 %p0, %t, 5; @%p0 trap;", 32), "H032 lanes 0x20 of warp 0");
  });
  test("lanes of a warp that wait for one another make progress", () => {
    // A lock between lanes of one warp: the lane that holds it must get its turn while the others spin.
    const body = `${head} L: atom.global.cas.b32 %r2, [%d0], 0, 1; setp.ne.u32 %p0, %r2, 0; @%p0 bra L;
      ld.volatile.global.u32 %r3, [%d0+4]; add.u32 %r3, %r3, 1; st.volatile.global.u32 [%d0+4], %r3; membar.gl; atom.global.exch.b32 %r2, [%d0], 0;`;
    const device = machine(kernel(body, { module: shared }));
    const out = device.put(new Uint8Array(64));
    clean(device.launch("k", 1, 64, [out]));
    expect(device.u32(out, 2)[1]).toBe(64);
  });
});

test("every rule has been met", () => {
  // From H033 on the rules belong to the asynchronous engines, whose tests stand in hazards-*.test.ts.
  const here = Object.keys(rules).filter((rule) => rule < "H033");
  expect([...found].sort()).toEqual(here.sort());
});

test("docs/hazards/README.md has a row and a section for every rule", () => {
  const page = readFileSync(new URL("../../../docs/hazards/README.md", import.meta.url), "utf8");
  for (const [rule, { name, check, sentence }] of Object.entries(rules)) {
    expect(page).toContain(
      `| [${rule}](#${rule.toLowerCase()}-${name}) | ${name} | ${check} | ${sentence} |`,
    );
    expect(page).toContain(`\n## ${rule} ${name}\n`);
  }
});
