/**
 * The search of interleavings: kernels whose mistake shows in few of very many, each beside a right one. Threads talk by strong accesses, so that no pair of
 * them is a race: only the order of steps is wrong.
 */
import { describe, expect, test } from "vitest";
import type { LaunchConfig } from "../src/index.ts";
import { kernel, machine, value } from "./support.ts";

const ld = (to: string, at: number): string => `ld.relaxed.gpu.global.u32 ${to}, [%d0+${at}];`;
const st = (at: number, from: string | number): string => `st.relaxed.gpu.global.u32 [%d0+${at}], ${from};`;
const add = (to: string, at: number, by: string | number): string =>
  `atom.relaxed.gpu.global.add.u32 ${to}, [%d0+${at}], ${by};`;
const cas = (to: string, at: number, old: string | number, next: string | number): string =>
  `atom.relaxed.gpu.global.cas.b32 ${to}, [%d0+${at}], ${old}, ${next};`;
const exch = (to: string, at: number, next: string | number): string =>
  `atom.relaxed.gpu.global.exch.b32 ${to}, [%d0+${at}], ${next};`;
/** Wait until a word is `want`. */
const until = (label: string, at: number, want: number | string): string =>
  `${label}: ${ld("%r9", at)} setp.ne.u32 %p7, %r9, ${want}; @%p7 bra ${label};`;
const lock = (label: string, at: number): string =>
  `${label}: ${cas("%r9", at, 0, 1)} setp.ne.u32 %p7, %r9, 0; @%p7 bra ${label}; fence.acq_rel.gpu;`;
const unlock = (at: number): string => `fence.acq_rel.gpu; ${exch("%r9", at, 0)}`;
/** Rounds of a loop counted by %r8. */
const rounds = (count: number, body: string): string =>
  `mov.u32 %r8, 0; ROUND: ${body} add.u32 %r8, %r8, 1; setp.lt.u32 %p6, %r8, ${count}; @%p6 bra ROUND;`;
/** One lane of each warp goes on; %r0 is the warp's number, %p0 says that it is warp 0. */
const head = `ld.param.u64 %d0, [out]; and.b32 %r1, %t, 31; setp.ne.u32 %p1, %r1, 0; @%p1 bra DONE;
  shr.u32 %r0, %t, 5; setp.eq.u32 %p0, %r0, 0;`;

interface Case {
  readonly name: string;
  readonly warps: number;
  readonly wrong: string;
  readonly right: string;
  readonly switches?: number;
}

const cases: readonly Case[] = [
  {
    name: "an update by a load and a store",
    warps: 2,
    wrong: rounds(3, `${ld("%r2", 0)} add.u32 %r2, %r2, 1; ${st(0, "%r2")}`),
    right: rounds(3, add("%r2", 0, 1)),
  },
  {
    name: "a lock that is looked at and then taken",
    warps: 2,
    wrong: `${until("LOCK", 4, 0)} ${st(4, 1)} fence.acq_rel.gpu; ld.global.u32 %r2, [%d0]; add.u32 %r2, %r2, 1; st.global.u32 [%d0], %r2; ${unlock(4)}`,
    right: `${lock("LOCK", 4)} ld.global.u32 %r2, [%d0]; add.u32 %r2, %r2, 1; st.global.u32 [%d0], %r2; ${unlock(4)}`,
  },
  {
    name: "the last to come, told by a load after the count",
    warps: 3,
    // Who sees that all have come sums up: two may see it, or each before the last has added.
    wrong: `${add("%r2", 4, 1)} ${ld("%r3", 4)} setp.eq.u32 %p2, %r3, 3; @%p2 ${add("%r4", 8, 1).slice(0, -1)};`,
    right: `${add("%r2", 4, 1)} setp.eq.u32 %p2, %r2, 2; @%p2 ${add("%r4", 8, 1).slice(0, -1)};`,
  },
  {
    name: "a flag raised before the data",
    warps: 2,
    wrong: `@!%p0 bra READER; ${st(4, 1)} ${st(0, 42)} bra.uni DONE; READER: ${until("WAIT", 4, 1)} ${ld("%r2", 0)} ${st(8, "%r2")}`,
    right: `@!%p0 bra READER; ${st(0, 42)} ${st(4, 1)} bra.uni DONE; READER: ${until("WAIT", 4, 1)} ${ld("%r2", 0)} ${st(8, "%r2")}`,
  },
  {
    name: "two locks taken in two orders",
    warps: 2,
    wrong: `@!%p0 bra OTHER; ${lock("A0", 4)} ${lock("B0", 8)} ${unlock(8)} ${unlock(4)} bra.uni DONE; OTHER: ${lock("B1", 8)} ${lock("A1", 4)} ${unlock(4)} ${unlock(8)}`,
    right: `@!%p0 bra OTHER; ${lock("A0", 4)} ${lock("B0", 8)} ${unlock(8)} ${unlock(4)} bra.uni DONE; OTHER: ${lock("A1", 4)} ${lock("B1", 8)} ${unlock(8)} ${unlock(4)}`,
  },
  {
    name: "a sequence count looked at once only",
    warps: 2,
    // The writer changes two words between an odd and an even count; the reader wants both of one round.
    wrong: `@!%p0 bra READER; ${rounds(2, `${add("%r2", 12, 1)} ${add("%r2", 0, 1)} ${add("%r2", 4, 1)} ${add("%r2", 12, 1)}`)} bra.uni DONE;
      READER: ${ld("%r4", 12)} and.b32 %r5, %r4, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra READER; ${ld("%r2", 0)} ${ld("%r3", 4)} sub.u32 %r2, %r2, %r3; ${st(8, "%r2")}`,
    right: `@!%p0 bra READER; ${rounds(2, `${add("%r2", 12, 1)} ${add("%r2", 0, 1)} ${add("%r2", 4, 1)} ${add("%r2", 12, 1)}`)} bra.uni DONE;
      READER: ${ld("%r4", 12)} and.b32 %r5, %r4, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra READER; ${ld("%r2", 0)} ${ld("%r3", 4)} ${ld("%r5", 12)} setp.ne.u32 %p3, %r4, %r5; @%p3 bra READER; sub.u32 %r2, %r2, %r3; ${st(8, "%r2")}`,
  },
  {
    name: "a ring whose producer does not wait for the slot",
    warps: 2,
    wrong: `@!%p0 bra TAKE; ${rounds(3, `add.u32 %r2, %r8, 1; ${st(0, "%r2")} ${st(4, "%r2")}`)} bra.uni DONE;
      TAKE: ${rounds(3, `add.u32 %r2, %r8, 1; FULL: ${ld("%r9", 4)} setp.lt.u32 %p7, %r9, %r2; @%p7 bra FULL; ${ld("%r3", 0)} ${add("%r4", 8, "%r3")} ${st(12, "%r2")}`)}`
      .replace("ROUND: add.u32 %r2, %r8, 1; FULL", "ROUND2: add.u32 %r2, %r8, 1; FULL")
      .replace(/bra ROUND;$/, "bra ROUND2;"),
    right:
      `@!%p0 bra TAKE; ${rounds(3, `EMPTY: ${ld("%r9", 12)} setp.lt.u32 %p7, %r9, %r8; @%p7 bra EMPTY; add.u32 %r2, %r8, 1; ${st(0, "%r2")} ${st(4, "%r2")}`)} bra.uni DONE;
      TAKE: ${rounds(3, `add.u32 %r2, %r8, 1; FULL: ${ld("%r9", 4)} setp.lt.u32 %p7, %r9, %r2; @%p7 bra FULL; ${ld("%r3", 0)} ${add("%r4", 8, "%r3")} ${st(12, "%r2")}`)}`
        .replace("ROUND: add.u32 %r2, %r8, 1; FULL", "ROUND2: add.u32 %r2, %r8, 1; FULL")
        .replace(/bra ROUND;$/, "bra ROUND2;"),
  },
  {
    name: "a reference count that is read again after it has been lowered",
    warps: 2,
    wrong: `${add("%r2", 4, 1)} ${add("%r3", 0, -1)} ${ld("%r3", 0)} setp.eq.u32 %p2, %r3, -2; @%p2 ${add("%r4", 8, 1).slice(0, -1)};`,
    right: `${add("%r2", 4, 1)} ${add("%r3", 0, -1)} setp.eq.u32 %p2, %r3, -1; @%p2 ${add("%r4", 8, 1).slice(0, -1)};`,
  },
  {
    name: "a barrier whose last thread opens it before it resets the count",
    warps: 2,
    wrong: rounds(
      2,
      `${ld("%r4", 8)} ${add("%r2", 4, 1)} setp.eq.u32 %p2, %r2, 1; @!%p2 bra WAIT; ${add("%r3", 8, 1)} ${st(4, 0)} bra.uni ON; WAIT: ${ld("%r9", 8)} setp.eq.u32 %p7, %r9, %r4; @%p7 bra WAIT; ON:`,
    ),
    right: rounds(
      2,
      `${ld("%r4", 8)} ${add("%r2", 4, 1)} setp.eq.u32 %p2, %r2, 1; @!%p2 bra WAIT; ${st(4, 0)} ${add("%r3", 8, 1)} bra.uni ON; WAIT: ${ld("%r9", 8)} setp.eq.u32 %p7, %r9, %r4; @%p7 bra WAIT; ON:`,
    ),
  },
  {
    name: "a stack whose top comes back (ABA)",
    warps: 2,
    switches: 2,
    // Nodes 1 and 2, the next of n at 16 + 4n; warp 0 pops one, warp 1 pops two and pushes the first again. Who has node n counts at 64 + 4n.
    wrong: stack(""),
    right: stack("counted"),
  },
  {
    name: "an index handed out by a load, a comparison and a store",
    warps: 3,
    wrong: `${ld("%r2", 0)} setp.ge.u32 %p2, %r2, 2; @%p2 bra DONE; add.u32 %r3, %r2, 1; ${st(0, "%r3")} ${add("%r4", 8, 1)}`,
    right: `AGAIN: ${ld("%r2", 0)} setp.ge.u32 %p2, %r2, 2; @%p2 bra DONE; add.u32 %r3, %r2, 1; ${cas("%r5", 0, "%r2", "%r3")} setp.ne.u32 %p3, %r5, %r2; @%p3 bra AGAIN; ${add("%r4", 8, 1)}`,
  },
  {
    name: "a value passed in shared memory behind a flag that is lowered too early",
    warps: 2,
    // The consumer says that it is ready before it has read.
    wrong: shared("st.volatile.shared.u32 [flag], 0; ld.volatile.shared.u32 %r2, [slot];"),
    right: shared("ld.volatile.shared.u32 %r2, [slot]; st.volatile.shared.u32 [flag], 0;"),
  },
];

function stack(counted: string): string {
  // A top with a count in its upper half does not come back.
  const next =
    counted === ""
      ? "mov.u32 %r6, %r4;"
      : "shr.u32 %r6, %r2, 16; add.u32 %r6, %r6, 1; shl.b32 %r6, %r6, 16; or.b32 %r6, %r6, %r4;";
  const pop = (label: string): string =>
    `${label}: ${ld("%r2", 0)} and.b32 %r3, %r2, 65535; setp.eq.u32 %p2, %r3, 0; @%p2 bra ${label}E; mul.wide.u32 %d1, %r3, 4; add.u64 %d1, %d1, %d0;
     ld.relaxed.gpu.global.u32 %r4, [%d1+16]; ${next} ${cas("%r5", 0, "%r2", "%r6")} setp.ne.u32 %p3, %r5, %r2; @%p3 bra ${label};
     atom.relaxed.gpu.global.add.u32 %r5, [%d1+64], 1; ${label}E:`;
  const push = `PUSH: ${ld("%r2", 0)} and.b32 %r4, %r2, 65535; st.relaxed.gpu.global.u32 [%d0+20], %r4; mov.u32 %r4, 1; ${next} ${cas("%r5", 0, "%r2", "%r6")} setp.ne.u32 %p3, %r5, %r2; @%p3 bra PUSH; atom.relaxed.gpu.global.add.u32 %r5, [%d0+68], -1;`;
  // The stack is 1 over 2, made by the host. At its end both nodes have gone but for what is pushed again; warp 0 empties it.
  return `@!%p0 bra SECOND; ${pop("P0")} ${add("%r5", 96, 1)} bra.uni DONE;
    SECOND: ${pop("P1")} ${pop("P2")} ${push} ${add("%r5", 96, 1)}
    ${until("BOTH", 96, 2)} ${pop("P3")} ${pop("P4")} ${st(0, 0)}`;
}

function shared(take: string): string {
  return `@!%p0 bra TAKE; ${rounds(2, `FREE: ld.volatile.shared.u32 %r9, [flag]; setp.ne.u32 %p7, %r9, 0; @%p7 bra FREE; add.u32 %r2, %r8, 5; st.volatile.shared.u32 [slot], %r2; st.volatile.shared.u32 [flag], 1;`)} bra.uni DONE;
    TAKE: mov.u32 %r8, 0; NEXT: FULL: ld.volatile.shared.u32 %r9, [flag]; setp.eq.u32 %p7, %r9, 0; @%p7 bra FULL; ${take} ${add("%r4", 8, "%r2")} add.u32 %r8, %r8, 1; setp.lt.u32 %p6, %r8, 2; @%p6 bra NEXT;`;
}

/** Shared words are zero at first: warps meet once before they go apart. */
const prologue = "setp.eq.u32 %p5, %t, 0; @%p5 st.volatile.shared.u32 [flag], 0; bar.sync 0;";

function prepared(body: string, warps: number) {
  const device = machine(
    kernel(`${body.includes("[flag]") ? prologue : ""} ${head} ${body} DONE:`, {
      module: ".shared .align 4 .b32 flag; .shared .align 4 .b32 slot;",
    }),
  );
  const out = device.put(new Uint8Array(256));
  if (body.includes("P4:")) {
    const words = new Uint32Array(64);
    words[0] = 1;
    words[5] = 2;
    device.emulator.write(out, new Uint8Array(words.buffer));
  }
  const config: LaunchConfig = { grid: [1, 1, 1], block: [32 * warps, 1, 1], params: [out], fuel: 20_000 };
  return { device, out, config };
}

describe("mistakes in few of very many interleavings", () => {
  test.each(cases)("$name", { timeout: 60_000 }, ({ wrong, right, warps, switches = 2 }) => {
    const faulty = prepared(wrong, warps);
    const before = faulty.device.emulator.read(faulty.out, 256);
    const { emulator, module } = faulty.device;
    const report = value(emulator.search(module, "k", faulty.config, { switches }));
    expect(report.failure, report.summary).not.toBeNull();
    expect(report.failure?.schedule.length).toBeLessThanOrEqual(switches);
    // The memory is as it was, and the schedule shows the same again.
    expect(emulator.read(faulty.out, 256)).toEqual(before);
    const schedule = report.failure?.schedule ?? [];
    const again = value(emulator.launch(module, "k", { ...faulty.config, schedule }));
    expect(again.findings).toEqual(report.failure?.report.findings);
    const correct = prepared(right, warps);
    const clear = value(
      correct.device.emulator.search(correct.device.module, "k", correct.config, { switches: 1 }),
    );
    expect(clear.failure, JSON.stringify(clear.failure)).toBeNull();
    expect(clear.covered).toBe(1);
  });
});

describe("what the search says", () => {
  test("how much it has covered, and which switches show a failure", () => {
    const { wrong, right } = cases[0] as Case;
    const faulty = prepared(wrong, 2);
    const { failure, summary } = value(
      faulty.device.emulator.search(faulty.device.module, "k", faulty.config),
    );
    expect(failure?.steps).toEqual([
      {
        stops: 0,
        before: expect.stringMatching(/^st\.relaxed\.gpu\.global\.u32 .* \(line \d+\)$/),
        goesOn: 1,
      },
    ]);
    expect(failure?.differs).toBe(faulty.out);
    expect(summary).toMatch(
      /^a failure after \d+ schedules, shown by 1 switch \(2 warps, \d contended instructions?\)$/,
    );
    const correct = prepared(right, 2);
    const clear = value(
      correct.device.emulator.search(correct.device.module, "k", correct.config, { switches: 9 }),
    );
    expect(clear.exhausted).toBe(true);
    expect(clear.summary).toMatch(/^all \d+ schedules \(2 warps, 1 contended instruction\)$/);
    const short = value(
      correct.device.emulator.search(correct.device.module, "k", correct.config, { schedules: 2 }),
    );
    expect([short.schedules, short.covered]).toEqual([2, 0]);
  });

  test("between blocks, with findings as failures", () => {
    // Block 0 reads what block 1 may not have written: a race in any schedule.
    const device = machine(
      kernel(
        `${head} mov.u32 %r2, %ctaid.x; setp.eq.u32 %p2, %r2, 0; @%p2 st.global.u32 [%d0], 5; @!%p2 ld.global.u32 %r3, [%d0]; DONE:`,
      ),
    );
    const out = device.put(new Uint8Array(64));
    const report = value(
      device.emulator.search(device.module, "k", { grid: [2, 1, 1], block: [32, 1, 1], params: [out] }),
    );
    expect(report.failure?.schedule).toEqual([]);
    expect(report.failure?.report.findings.map(({ rule }) => rule)).toEqual(["H092"]);
  });
});

test("a lost update appears in random order, in global and in shared memory", () => {
  for (const [space, wrong] of [
    ["global", rounds(3, `${ld("%r2", 0)} add.u32 %r2, %r2, 1; ${st(0, "%r2")}`)],
    ["global, plain", rounds(3, "ld.global.u32 %r2, [%d0]; add.u32 %r2, %r2, 1; st.global.u32 [%d0], %r2;")],
    [
      "shared",
      `${rounds(3, "ld.volatile.shared.u32 %r2, [flag]; add.u32 %r2, %r2, 1; st.volatile.shared.u32 [flag], %r2;")} ${add("%r3", 4, 1)} ${until("ALL", 4, 2)} ld.volatile.shared.u32 %r2, [flag]; ${st(0, "%r2")}`,
    ],
  ] as const) {
    const { device, out, config } = prepared(wrong, 2);
    const sums = Array.from({ length: 20 }, (_, seed) => {
      device.emulator.write(out, new Uint8Array(256));
      value(device.emulator.launch(device.module, "k", { ...config, order: "random", seed }));
      return device.u32(out, 1)[0] ?? 0;
    });
    expect(Math.min(...sums), space).toBeLessThan(6);
    expect(Math.max(...sums), space).toBe(6);
  }
});
