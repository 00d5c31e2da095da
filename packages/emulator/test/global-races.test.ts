/** Rules of races in global memory: for each the faulty kernel and the right one next to it, in every order. */
import { describe, expect, test } from "vitest";
import { globalRules } from "../src/checkers/rules.ts";
import type { LaunchConfig, LaunchReport } from "../src/index.ts";
import { kernel, machine, orders } from "./support.ts";

/** %d0 is the buffer, %d1 the thread's word in it, %d2 the word after the buffer's first 1024 bytes: a flag. */
const head = `ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %t, 4, %d0; add.u64 %d2, %d0, 1024; mov.u32 %r0, %ctaid.x; setp.eq.u32 %p0, %r0, 0;
  setp.eq.u32 %p1, %t, 0;`;
const shared = `.shared .align 128 .b8 tile[1024];
.shared .align 8 .b64 bar;`;

interface Case {
  readonly name: string;
  readonly body: string;
  readonly grid?: number;
  readonly block?: number;
  /** None for a right kernel. */
  readonly rule?: string;
  readonly rest?: (out: bigint) => Partial<LaunchConfig>;
}

function launcher({ body, grid = 1, block = 32, rest }: Case) {
  const device = machine(kernel(head + body, { module: shared }));
  const out = device.put(new Uint8Array(4096));
  return (config: Partial<LaunchConfig>): LaunchReport => {
    device.emulator.write(out, new Uint8Array(4096));
    return device.launch("k", grid, block, [out], { ...config, ...rest?.(out) });
  };
}

/** Rules by which a case is found, in each order and under several seeds. */
function rulesOf(kase: Case): readonly (readonly string[])[] {
  const seeds = Array.from({ length: 5 }, (_, k) => ({ order: "random", seed: k + 1 }) as const);
  const launch = launcher(kase);
  return [...orders.map((order) => ({ order })), ...seeds].map((config) =>
    launch(config).findings.map(({ rule }) => rule),
  );
}

/** Block 0 makes data and raises a flag; block 1 waits for the flag and reads the data. */
const handOver = (raise: string, wait: string, after = "", before = ""): string => `
  @!%p0 bra CONSUME;
  mov.u32 %r1, 7; st.global.u32 [%d1], %r1; bar.sync 0;
  ${before}
  @%p1 ${raise};
  bra.uni DONE;
  CONSUME: ${wait} setp.eq.u32 %p2, %r2, 0; @%p2 bra CONSUME;
  ${after}
  ld.global.u32 %r3, [%d1];
  DONE:`;
/** Block 1 reads, tells block 0, and block 0 overwrites what was read. */
const handBack = (raise: string, wait: string): string => `
  @%p0 bra WAIT;
  ld.global.u32 %r1, [%d1]; bar.sync 0;
  @%p1 ${raise};
  bra.uni DONE;
  WAIT: ${wait} setp.eq.u32 %p2, %r2, 0; @%p2 bra WAIT;
  st.global.u32 [%d1], 3;
  DONE:`;
const bulkStore = (wait: string): string => `
  mov.u32 %r4, tile; mad.lo.u32 %r5, %t, 4, %r4; st.shared.u32 [%r5], %t; fence.proxy.async; bar.sync 0;
  @!%p1 bra WAITED;
  cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r4], 128; cp.async.bulk.commit_group; ${wait};
  WAITED: bar.sync 0; ld.global.u32 %r3, [%d1]; @%p1 cp.async.bulk.wait_group 0;`;
/** Threads write a row and one of them loads it by a bulk copy. */
const bulkLoad = (fence: string): string => `
  mov.u32 %r4, tile; mov.u32 %r5, bar; @%p1 mbarrier.init.shared.b64 [%r5], 1; fence.mbarrier_init.release.cluster;
  st.global.u32 [%d1], %t; ${fence}; bar.sync 0;
  @!%p1 bra WAIT;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r5], 128;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%d0], 128, [%r5];
  WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r5], 0; @!%p2 bra WAIT;`;
const acquire = "ld.acquire.gpu.global.u32 %r2, [%d2];";
const two = { grid: 2 } as const;

const cases: readonly Case[] = [
  {
    rule: "H092",
    name: "another warp's word with no barrier",
    block: 64,
    body: "st.global.u32 [%d1], %t; xor.b32 %r1, %t, 32; mad.wide.u32 %d3, %r1, 4, %d0; ld.global.u32 %r2, [%d3];",
  },
  {
    name: "another warp's word behind a barrier",
    block: 64,
    body: "st.global.u32 [%d1], %t; bar.sync 0; xor.b32 %r1, %t, 32; mad.wide.u32 %d3, %r1, 4, %d0; ld.global.u32 %r2, [%d3];",
  },
  {
    rule: "H092",
    name: "another block's word with no flag",
    ...two,
    body: "@%p0 st.global.u32 [%d1], 5; @!%p0 ld.global.u32 %r2, [%d1];",
  },
  ...(
    [
      ["release and acquire", "st.release.gpu.global.u32 [%d2], 1", acquire],
      [
        "a fence and a relaxed store",
        "st.relaxed.gpu.global.u32 [%d2], 1",
        acquire,
        "",
        "fence.acq_rel.gpu;",
      ],
      [
        "volatile accesses and fences on both sides",
        "st.volatile.global.u32 [%d2], 1",
        "ld.volatile.global.u32 %r2, [%d2];",
        "membar.gl;",
        "membar.gl;",
      ],
      [
        "an atomic release",
        "red.release.gpu.global.add.u32 [%d2], 1",
        "atom.acquire.gpu.global.or.b32 %r2, [%d2], 0;",
      ],
      ["system scope", "st.release.sys.global.u32 [%d2], 1", "ld.acquire.sys.global.u32 %r2, [%d2];"],
    ] as const
  ).map(([name, raise, wait, after = "", before = ""]) => ({
    name: `a flag by ${name}`,
    ...two,
    body: handOver(raise, wait, after, before),
  })),
  ...(
    [
      ["raised by a relaxed store", "st.relaxed.gpu.global.u32 [%d2], 1", acquire],
      [
        "seen by a relaxed load",
        "st.release.gpu.global.u32 [%d2], 1",
        "ld.relaxed.gpu.global.u32 %r2, [%d2];",
      ],
      ["seen by a volatile load", "st.release.gpu.global.u32 [%d2], 1", "ld.volatile.global.u32 %r2, [%d2];"],
      ["fenced at the scope of a block", "st.relaxed.gpu.global.u32 [%d2], 1", acquire, "", "membar.cta;"],
      [
        "whose reader fences at the scope of a block",
        "st.release.gpu.global.u32 [%d2], 1",
        "ld.relaxed.gpu.global.u32 %r2, [%d2];",
        "fence.acq_rel.cta;",
      ],
      [
        "raised by a relaxed atomic",
        "red.global.add.u32 [%d2], 1",
        "atom.acquire.gpu.global.or.b32 %r2, [%d2], 0;",
      ],
    ] as const
  ).map(([name, raise, wait, after = "", before = ""]) => ({
    rule: "H092",
    name: `a flag ${name}`,
    ...two,
    body: handOver(raise, wait, after, before),
  })),
  {
    name: "a fence of each thread before the barrier, the flag by one of them",
    ...two,
    body: handOver("st.relaxed.gpu.global.u32 [%d2], 1", acquire, "", "fence.acq_rel.gpu; bar.sync 0;"),
  },
  {
    name: "a fence of each thread, then the barrier, the flag by one of them; and the same on the other side",
    ...two,
    body: handOver(
      "st.relaxed.gpu.global.u32 [%d2], 1",
      "ld.relaxed.gpu.global.u32 %r2, [%d2];",
      "bar.sync 0; fence.acq_rel.gpu;",
      "",
    ).replace("[%d1], %r1; bar.sync 0;", "[%d1], %r1; fence.acq_rel.gpu; bar.sync 0;"),
    block: 96,
  },
  {
    rule: "H093",
    name: "overwritten while another block reads",
    ...two,
    body: handBack("st.relaxed.gpu.global.u32 [%d2], 1", acquire),
  },
  {
    name: "overwritten after a flag of who has read",
    ...two,
    body: handBack("st.release.gpu.global.u32 [%d2], 1", acquire),
  },
  { rule: "H094", name: "two blocks write their numbers", ...two, body: "st.global.u32 [%d1], %r0;" },
  { name: "two blocks write one value", ...two, body: "st.global.u32 [%d1], 9;" },
  {
    name: "blocks write their own halves of words",
    ...two,
    body: "mad.wide.u32 %d3, %r0, 2, %d1; st.global.u16 [%d3], 1;",
  },
  {
    name: "a reduction of several blocks",
    grid: 4,
    body: "red.global.add.u32 [%d1], 1; atom.global.max.u32 %r1, [%d0], %t;",
  },
  {
    rule: "H095",
    name: "a neighbour lane's word",
    body: "st.global.u32 [%d1], %t; xor.b32 %r1, %t, 1; mad.wide.u32 %d3, %r1, 4, %d0; ld.global.u32 %r2, [%d3];",
  },
  {
    name: "a neighbour lane's word after bar.warp.sync",
    body: "st.global.u32 [%d1], %t; bar.warp.sync -1; xor.b32 %r1, %t, 1; mad.wide.u32 %d3, %r1, 4, %d0; ld.global.u32 %r2, [%d3];",
  },
  {
    name: "a thread's own word, read and written",
    body: "ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1; ld.global.u32 %r2, [%d1];",
  },
  {
    rule: "H095",
    name: "a word that all lanes have read, written by one",
    body: "ld.global.u32 %r1, [%d0]; @%p1 st.global.u32 [%d0], 1;",
  },
  {
    name: "a word that all lanes have read, written by one after bar.warp.sync",
    body: "ld.global.u32 %r1, [%d0]; bar.warp.sync -1; @%p1 st.global.u32 [%d0], 1;",
  },
  {
    name: "a word that one lane of those that are there has read, and written",
    body: "@%p1 ld.global.u32 %r1, [%d0]; @%p1 st.global.u32 [%d0], 1;",
  },
  {
    rule: "H095",
    name: "an atomic on a neighbour lane's word, and a store",
    body: "red.global.add.u32 [%d1], 1; xor.b32 %r1, %t, 1; mad.wide.u32 %d3, %r1, 4, %d0; st.global.u32 [%d3], %t;",
  },
  {
    rule: "H092",
    name: "a plain load of what another block's atomics add to",
    ...two,
    body: "@%p0 red.global.add.u32 [%d1], 1; @!%p0 ld.global.u32 %r2, [%d1];",
  },
  {
    rule: "H092",
    name: "atomics on what another block has read plainly",
    ...two,
    body: "@%p0 ld.global.u32 %r2, [%d1]; @!%p0 red.global.add.u32 [%d1], 1;",
  },
  {
    name: "a lane's own word by a plain store, a barrier, and atomics of all",
    block: 64,
    body: "st.global.u32 [%d1], 0; bar.sync 0; red.global.add.u32 [%d0], %t; xor.b32 %r1, %t, 32; mad.wide.u32 %d3, %r1, 4, %d0; red.global.add.u32 [%d3], %t;",
  },
  ...([1, 2] as const).flatMap((bytes) => {
    const store = `mad.wide.u32 %d3, %t, ${bytes}, %d0; st.global.u${8 * bytes} [%d3], 1; ld.global.u${8 * bytes} %h1, [%d3];`;
    const other = (far: number): string =>
      `xor.b32 %r1, %t, ${far}; mad.wide.u32 %d3, %r1, ${bytes}, %d0; ld.global.u${8 * bytes} %h1, [%d3];`;
    return [
      { rule: "H095", name: `a neighbour lane's ${8 * bytes} bits`, body: store + other(1) },
      { rule: "H092", name: `another warp's ${8 * bytes} bits`, block: 64, body: store + other(32) },
      {
        name: `another warp's ${8 * bytes} bits behind a barrier`,
        block: 64,
        body: `${store}bar.sync 0;${other(32)}`,
      },
    ];
  }),
  {
    rule: "H096",
    name: "atomics of a block's scope on another block's counter",
    ...two,
    body: "atom.cta.global.add.u32 %r1, [%d0], 1;",
  },
  {
    name: "atomics of a block's scope in one block",
    block: 64,
    body: "atom.cta.global.add.u32 %r1, [%d0], 1;",
  },
  {
    rule: "H097",
    name: "a bulk store's data after wait_group.read",
    body: bulkStore("cp.async.bulk.wait_group.read 0"),
  },
  { name: "a bulk store's data after wait_group", body: bulkStore("cp.async.bulk.wait_group 0") },
  { rule: "H098", name: "a bulk load of what threads have stored", body: bulkLoad("") },
  { rule: "H098", name: "a fence for shared memory only", body: bulkLoad("fence.proxy.async.shared::cta") },
  { name: "a fence for global memory before the bulk load", body: bulkLoad("fence.proxy.async.global") },
  {
    rule: "H098",
    name: "a bulk store over what threads have stored",
    body: `st.global.u32 [%d1], 77; ${bulkStore("cp.async.bulk.wait_group 0").replace("fence.proxy.async;", "fence.proxy.async.shared::cta;")}`,
  },
  ...(["reads", "writes"] as const).map((kind) => ({
    rule: "H099",
    name: `a store to what the grid before ${kind}`,
    body: "st.global.u32 [%d1], 3; griddepcontrol.wait;",
    rest: (pointer: bigint) => ({ before: { [kind]: [{ pointer, bytes: 512 }] } }),
  })),
  {
    rule: "H099",
    name: "a load of what the grid before writes, with the wait in another warp",
    block: 64,
    body: "setp.lt.u32 %p3, %t, 32; @%p3 griddepcontrol.wait; ld.global.u32 %r1, [%d1];",
    rest: (pointer) => ({ before: { writes: [{ pointer, bytes: 512 }] } }),
  },
  {
    name: "both behind the wait, which one warp hands on at a barrier",
    block: 64,
    body: "ld.global.u32 %r1, [%d1+2048]; setp.lt.u32 %p3, %t, 32; @%p3 griddepcontrol.wait; bar.sync 0; ld.global.u32 %r1, [%d1]; st.global.u32 [%d1+512], 1;",
    rest: (pointer) => ({
      before: { writes: [{ pointer, bytes: 512 }], reads: [{ pointer: pointer + 512n, bytes: 512 }] },
    }),
  },
  {
    name: "a load of what the grid before only reads",
    body: "ld.global.u32 %r1, [%d1];",
    rest: (pointer) => ({ before: { reads: [{ pointer, bytes: 512 }] } }),
  },
  {
    rule: "H100",
    name: "a store and a non-coherent load",
    body: "st.global.u32 [%d1], 1; ld.global.nc.u32 %r1, [%d1];",
  },
  {
    name: "a non-coherent load of what the host wrote",
    body: "ld.global.nc.u32 %r1, [%d1]; st.global.u32 [%d1+512], %r1;",
  },
];

describe("faulty", () => {
  for (const kase of cases.filter(({ rule }) => rule !== undefined))
    test(`${kase.rule} ${kase.name}`, () => {
      // Whether a race shows as read after write or as write after read is a matter of the order.
      const same: readonly (string | undefined)[] = kase.rule === "H092" ? ["H092", "H093"] : [kase.rule];
      for (const rules of rulesOf(kase)) expect(same).toContain(rules[0]);
    });
});

describe("right", () => {
  for (const kase of cases.filter(({ rule }) => rule === undefined))
    test(kase.name, () => {
      for (const rules of rulesOf(kase)) expect(rules).toEqual([]);
    });
});

test("every rule has a case", () => {
  expect([...new Set(cases.flatMap(({ rule }) => rule ?? []))].sort()).toEqual([...globalRules].sort());
});

test("a finding names both accesses, who made them and the place", () => {
  const faulty = cases.find(({ name }) => name === "two blocks write their numbers");
  if (faulty === undefined) throw new Error("the case has gone");
  const [finding] = launcher(faulty)({ order: "eager" }).findings;
  expect(finding?.message).toMatch(
    /^global address 0x7f00\w+ \(byte 0 of an allocation of 4096 bytes\) is overwritten by warp 0 with no synchronisation after the write by warp 0 of block 0,0,0; the other access is st.global.u32 \[%d1\], %r0; \(line \d+\)$/,
  );
  expect(finding?.block).toEqual([1, 0, 0]);
});

test("with its rules off nothing is followed", () => {
  const faulty = cases.filter(({ rule }) => rule !== undefined);
  for (const kase of faulty) expect(launcher(kase)({ disable: globalRules }).findings).toEqual([]);
});

test("words read by many warps keep who has read them, and what was known before a chain of flags", () => {
  // Blocks take turns by a ticket: each adds to all words, reads the sum of the others, and passes the ticket on.
  const body = `
    TURN: ld.acquire.gpu.global.u32 %r2, [%d2]; setp.ne.u32 %p2, %r2, %r0; @%p2 bra TURN;
    ld.global.u32 %r3, [%d1]; add.u32 %r3, %r3, 1; st.global.u32 [%d1], %r3;
    add.u64 %d3, %d0, 512; ld.global.u32 %r4, [%d3];
    bar.sync 0; add.u32 %r2, %r0, 1; @%p1 st.release.gpu.global.u32 [%d2], %r2;`;
  const device = machine(kernel(head + body, { module: shared }));
  const out = device.put(new Uint8Array(4096));
  for (const order of orders) {
    device.emulator.write(out, new Uint8Array(4096));
    const report = device.launch("k", 24, 64, [out], { order });
    expect(report.findings).toEqual([]);
    expect(device.u32(out, 2)).toEqual(Uint32Array.of(24, 24));
  }
});
