/** Fences, arrivals, commits, counts, bytes, masks, and which threads do it. */
import type { Instruction, Statement } from "@tilewright/ptx";
import {
  definition,
  following,
  instruction,
  integer,
  isInteger,
  isRegister,
  modified,
  mutant,
  operandOf,
  replaced,
  replacedBy,
  type Site,
  withOperand,
  without,
} from "./edit.ts";
import { early, type Mutator, races, tensorOrder, uneven } from "./mutator.ts";

const dropped = (site: Site): readonly Statement[] => replaced(site);
const doubled = (site: Site): readonly Statement[] => replaced(site, site.instruction, site.instruction);

/** `.relaxed` at the scope that the instruction has or takes by default. */
function relaxed(i: Instruction): Instruction {
  const scope = i.modifiers.includes("cluster") ? "cluster" : "cta";
  const rest = i.modifiers.filter((m) => !["release", "acquire", "cluster", "cta"].includes(m));
  const modifiers = ["relaxed", scope, ...rest];
  return { ...i, modifiers, mnemonic: [i.opcode, ...modifiers].join(".") };
}

/** An integer operand changed; null where it is none. */
const changed = (site: Site, at: number, change: (n: bigint) => bigint): readonly Statement[] | null => {
  const n = site.instruction.operands[at];
  return isInteger(n) && change(n.value) > 0n && change(n.value) !== n.value
    ? replaced(site, withOperand(site.instruction, at, integer(change(n.value))))
    : null;
};
/** The last operand of an instruction. */
const lastOf = (site: Site): number => site.instruction.operands.length - 1;

/** A 16-bit mask for the one that the instruction has as its last operand. */
const masked = (site: Site, mask: number): readonly Statement[] | null => {
  const operand = site.instruction.operands[lastOf(site)];
  return isRegister(operand) &&
    operand.type === "b16" &&
    site.instruction.mnemonic.includes("multicast::cluster")
    ? replaced(
        site,
        instruction("mov.b16", mutant.half, integer(mask)),
        withOperand(site.instruction, lastOf(site), mutant.half),
      )
    : null;
};

/** The guard of the branch behind an election that sends everybody but the elected lane away. */
function chosen(site: Site): Site | null {
  const pair = site.instruction.operands[0];
  const elected = pair?.kind === "pair" && pair.second.kind === "register" ? pair.second.name : null;
  return following(site, (i) => i.opcode === "bra" && i.guard !== null && i.guard.register.name === elected);
}

const fences: readonly Mutator[] = [
  {
    fault: "fence.proxy.async dropped",
    class: "dropped fence",
    on: ["fence.proxy"],
    edit: dropped,
    finds: ["H033"],
    most: 8,
  },
  {
    fault: "fence.mbarrier_init dropped",
    class: "dropped fence",
    on: ["fence.mbarrier_init"],
    edit: dropped,
    finds: ["H046"],
  },
  {
    fault: "wgmma.fence dropped",
    class: "dropped fence",
    on: ["wgmma.fence"],
    edit: dropped,
    finds: ["H061"],
  },
  {
    fault: "tcgen05.fence::after_thread_sync dropped",
    class: "dropped fence",
    on: ["tcgen05.fence::after_thread_sync"],
    edit: dropped,
    finds: ["H084"],
    most: 8,
  },
  {
    // Where a thread waits for an accumulator and then for its operands, either wait's fence will do.
    fault: "tcgen05.fence::after_thread_sync dropped behind two waits",
    class: "dropped fence",
    on: ["tcgen05.fence::after_thread_sync"],
    edit: (site) => {
      const again = following(site, (i) => i.opcode === site.instruction.opcode, true);
      const between = again === null ? [] : site.body.slice(site.at, again.at);
      const waits = between.filter(
        (s) => s.kind === "instruction" && s.opcode.startsWith("mbarrier.try_wait"),
      );
      const last = again === null ? undefined : site.body[again.at - 1];
      return again !== null &&
        waits.length === 1 &&
        last?.kind === "instruction" &&
        last.opcode === "bra" &&
        between.length < 16
        ? without(site.body, site.at, again.at)
        : null;
    },
    finds: ["H084"],
  },
  {
    fault: "tcgen05.fence::before_thread_sync dropped",
    class: "dropped fence",
    on: ["tcgen05.fence::before_thread_sync"],
    edit: dropped,
    finds: ["H085"],
    most: 8,
  },
  {
    fault: "arrival relaxed",
    class: "weaker memory order",
    on: ["mbarrier.arrive"],
    edit: (site) => replaced(site, relaxed(site.instruction)),
    finds: [...races, ...early, ...tensorOrder],
    most: 4,
  },
  {
    fault: "wait relaxed",
    class: "weaker memory order",
    on: ["mbarrier.try_wait.parity"],
    edit: (site) => replaced(site, relaxed(site.instruction)),
    finds: [...races, ...early, ...tensorOrder],
    most: 6,
  },
];

const arrivals: readonly Mutator[] = [
  {
    fault: "arrival dropped",
    class: "dropped arrival or commit",
    on: ["mbarrier.arrive", "mbarrier.arrive.expect_tx"],
    edit: dropped,
    finds: uneven,
    most: 6,
  },
  {
    fault: "arrival doubled",
    class: "doubled arrival or commit",
    on: ["mbarrier.arrive", "mbarrier.arrive.expect_tx"],
    edit: doubled,
    finds: [...uneven, ...races, ...early, ...tensorOrder],
    most: 4,
  },
  {
    fault: "cp.async.commit_group dropped",
    class: "dropped arrival or commit",
    on: ["cp.async.commit_group"],
    edit: dropped,
    finds: ["H013", "H014", "H015"],
    most: 3,
  },
  {
    fault: "wgmma.commit_group dropped",
    class: "dropped arrival or commit",
    on: ["wgmma.commit_group"],
    edit: dropped,
    finds: ["H064", "H060", "H035", "H065"],
  },
  {
    fault: "cp.async.bulk.commit_group dropped",
    class: "dropped arrival or commit",
    on: ["cp.async.bulk.commit_group"],
    edit: dropped,
    finds: ["H035", "H054"],
    most: 4,
  },
  {
    fault: "tcgen05.commit dropped",
    class: "dropped arrival or commit",
    on: ["tcgen05.commit"],
    edit: dropped,
    finds: uneven,
  },
  {
    fault: "tcgen05.commit doubled",
    class: "doubled arrival or commit",
    on: ["tcgen05.commit"],
    edit: doubled,
    finds: [...uneven, ...early, ...tensorOrder],
  },
  {
    fault: "an arrival of the thread in place of the commit",
    class: "dropped arrival or commit",
    on: ["tcgen05.commit"],
    edit: (site) => {
      const address = site.instruction.operands[operandOf(site.instruction, "address")];
      return address === undefined
        ? null
        : replaced(site, {
            ...instruction("mbarrier.arrive", { kind: "sink" }, address),
            opcode: "mbarrier.arrive",
            modifiers: ["shared::cta", "b64"],
            mnemonic: "mbarrier.arrive.shared::cta.b64",
          });
    },
    finds: ["H014", "H035", "H083", "H030"],
  },
  {
    fault: "mbarrier.init doubled",
    class: "doubled arrival or commit",
    on: ["mbarrier.init"],
    edit: doubled,
    finds: ["H045"],
    most: 1,
  },
  {
    fault: "mbarrier.init dropped",
    class: "dropped arrival or commit",
    on: ["mbarrier.init"],
    edit: dropped,
    finds: ["H040"],
    most: 2,
  },
];

const counts: readonly Mutator[] = [
  {
    fault: "mbarrier expects one arrival more",
    class: "wrong count",
    on: ["mbarrier.init"],
    edit: (site) => changed(site, 1, (n) => n + 1n),
    finds: uneven,
    most: 3,
  },
  {
    fault: "mbarrier expects one arrival less",
    class: "wrong count",
    on: ["mbarrier.init"],
    edit: (site) => changed(site, 1, (n) => n - 1n),
    finds: [...uneven, ...races, ...early, ...tensorOrder, "H033"],
    most: 3,
  },
  {
    fault: "bar.sync for half of its threads",
    class: "wrong count",
    on: ["bar"],
    edit: (site) => {
      const [id, threads] = site.instruction.operands;
      if (id === undefined) return null;
      const half = isInteger(threads) ? threads.value / 2n : 64n;
      return replaced(site, { ...site.instruction, operands: [id, integer(half)] });
    },
    finds: [...races, ...early, "H018", "H022", "H030", "H033", "H040", "H046", "H080", "H083", "H087"],
    most: 2,
  },
  {
    fault: "one stage more than there are",
    class: "wrong count",
    on: ["setp"],
    edit: (site) => {
      const stages = site.instruction.operands[2];
      return site.instruction.modifiers.includes("eq") &&
        isInteger(stages) &&
        stages.value >= 2n &&
        stages.value <= 8n
        ? replaced(site, withOperand(site.instruction, 2, integer(stages.value + 1n)))
        : null;
    },
    finds: [
      ...uneven,
      ...early,
      ...tensorOrder,
      ...races,
      "H001",
      "H040",
      "H042",
      "H047",
      "H051",
      "H089",
      "numbers",
    ],
    most: 3,
  },
  {
    fault: "one K step less",
    class: "wrong count",
    on: ["add"],
    edit: (site) => {
      // The counter of a loop: added to in steps of a K block, then compared and branched on.
      const [to, from, step] = site.instruction.operands;
      const compared = following(site, (i) => i.opcode === "setp");
      return isRegister(to) &&
        isRegister(from) &&
        to.name === from.name &&
        isInteger(step) &&
        step.value === 64n &&
        compared !== null
        ? replaced(site, withOperand(site.instruction, 2, integer(128)))
        : null;
    },
    finds: [...uneven, "numbers"],
    most: 2,
  },
];

const amounts: readonly Mutator[] = [
  {
    fault: "16 bytes more expected",
    class: "wrong byte count",
    on: ["mbarrier.arrive.expect_tx"],
    edit: (site) => changed(site, 2, (n) => n + 16n),
    finds: ["H030"],
    most: 3,
  },
  {
    fault: "half of the bytes expected",
    class: "wrong byte count",
    on: ["mbarrier.arrive.expect_tx"],
    edit: (site) => changed(site, 2, (n) => n / 2n),
    finds: ["H030", "H034", "H041", "H035", "H014", "H044"],
    most: 3,
  },
  {
    fault: "an arrival without its bytes",
    class: "wrong byte count",
    on: ["mbarrier.arrive.expect_tx"],
    edit: (site) =>
      replaced(site, {
        ...site.instruction,
        opcode: "mbarrier.arrive",
        mnemonic: ["mbarrier.arrive", ...site.instruction.modifiers].join("."),
        operands: site.instruction.operands.slice(0, 2),
      }),
    finds: ["H030", "H034", "H041", "H035", "H014", "H044"],
    most: 3,
  },
  {
    fault: "cp.async copies half",
    class: "wrong byte count",
    on: ["cp.async"],
    edit: (site) =>
      site.instruction.operands.length === 3
        ? replaced(site, { ...site.instruction, operands: [...site.instruction.operands, integer(8)] })
        : null,
    finds: ["numbers"],
    most: 1,
  },
];

const threads: readonly Mutator[] = [
  {
    fault: "multicast to block 0 only",
    class: "wrong mask or peer",
    on: ["cp.async.bulk.tensor", "tcgen05.commit"],
    edit: (site) => masked(site, 1),
    finds: uneven,
  },
  {
    fault: "multicast to block 1 only",
    class: "wrong mask or peer",
    on: ["cp.async.bulk.tensor", "tcgen05.commit"],
    edit: (site) => masked(site, 2),
    finds: uneven,
  },
  {
    fault: "multicast beyond the cluster",
    class: "wrong mask or peer",
    on: ["cp.async.bulk.tensor", "tcgen05.commit"],
    edit: (site) => masked(site, 7),
    finds: ["H053", "H043", "H003"],
  },
  {
    fault: "no multicast",
    class: "wrong mask or peer",
    on: ["cp.async.bulk.tensor"],
    edit: (site) => {
      const i = modified(site.instruction, "multicast::cluster", null);
      return i === null ? null : replaced(site, { ...i, operands: i.operands.slice(0, -1) });
    },
    finds: uneven,
  },
  {
    fault: "the other block of the pair",
    class: "wrong mask or peer",
    on: ["mapa"],
    edit: (site) => {
      const rank = site.instruction.operands[2];
      return rank === undefined
        ? null
        : isInteger(rank)
          ? replaced(site, withOperand(site.instruction, 2, integer(rank.value ^ 1n)))
          : replaced(site, withOperand(site.instruction, 2, integer(0)));
    },
    finds: [...uneven, "H047", "H089"],
    most: 3,
  },
  {
    fault: "half of the warp in the member mask",
    class: "wrong mask or peer",
    on: ["elect.sync", "shfl.sync", "bar.warp"],
    edit: (site) =>
      isInteger(site.instruction.operands[lastOf(site)])
        ? replaced(site, withOperand(site.instruction, lastOf(site), integer(0xffff)))
        : null,
    finds: ["H020", "H021", "H022"],
    most: 2,
  },
  {
    fault: "all lanes but the elected one",
    class: "wrong threads",
    on: ["elect.sync"],
    edit: (site) => {
      const branch = chosen(site);
      const guard = branch?.instruction.guard;
      return branch === null || guard === undefined || guard === null
        ? null
        : replaced(branch, { ...branch.instruction, guard: { ...guard, negated: !guard.negated } });
    },
    finds: [...uneven, ...tensorOrder, "H044", "H089", "H014", "H023", "numbers"],
    most: 3,
  },
  {
    fault: "the whole warp in place of the elected lane",
    class: "wrong threads",
    on: ["elect.sync"],
    edit: (site) => {
      const branch = chosen(site);
      return branch === null ? null : without(site.body, branch.at);
    },
    finds: [...uneven, ...tensorOrder, "H044", "H089", "H014", "H023", "numbers"],
    most: 3,
  },
  {
    fault: "every thread arrives",
    class: "wrong threads",
    on: ["mbarrier.arrive", "mbarrier.arrive.expect_tx"],
    edit: (site) =>
      site.instruction.guard === null ? null : replaced(site, { ...site.instruction, guard: null }),
    finds: [...uneven, "H001", "H003", "H043", "H047"],
    most: 2,
  },
  {
    fault: "a collective by half of the warp",
    class: "wrong threads",
    on: ["mma", "ldmatrix", "stmatrix", "wgmma.mma_async", "tcgen05.ld", "wgmma.fence"],
    edit: (site) =>
      replaced(
        site,
        instruction("mov.u32", mutant.word, { kind: "special", name: "%laneid" }),
        instruction("setp.lt.u32", mutant.yes, mutant.word, integer(16)),
        { ...site.instruction, guard: { register: mutant.yes, negated: false } },
      ),
    finds: ["H017", "H023", "H020", "H030", "H063"],
    most: 1,
  },
];

const cluster: readonly Mutator[] = [
  {
    fault: "cluster barrier dropped",
    class: "missing cluster barrier",
    on: ["barrier.cluster.arrive"],
    edit: (site) => {
      const wait = following(site, (i) => i.opcode === "barrier.cluster.wait");
      return wait === null ? null : without(site.body, site.at, wait.at);
    },
    finds: ["H043", "H046", "H055", "H040", "H083", "H084", "H087", "H009"],
    most: 2,
  },
  {
    fault: "a block's barrier in place of the cluster's",
    class: "missing cluster barrier",
    on: ["barrier.cluster.arrive"],
    edit: (site) => {
      const wait = following(site, (i) => i.opcode === "barrier.cluster.wait");
      return wait === null ? null : without(replaced(site, instruction("bar.sync", integer(0))), wait.at);
    },
    finds: ["H043", "H046", "H055", "H040", "H083", "H087"],
    most: 2,
  },
  {
    fault: "cluster barrier without its wait",
    class: "missing cluster barrier",
    on: ["barrier.cluster.wait"],
    edit: dropped,
    finds: ["H049", "H043", "H046", "H055", "H040", "H083", "H084"],
    most: 2,
  },
  {
    fault: "cluster barrier without its arrival",
    class: "missing cluster barrier",
    on: ["barrier.cluster.arrive"],
    edit: dropped,
    finds: ["H049", "H030"],
    most: 2,
  },
];

const registers: readonly Mutator[] = [
  {
    fault: "setmaxnreg dropped",
    class: "setmaxnreg",
    on: ["setmaxnreg"],
    edit: (site) => (site.instruction.modifiers.includes("dec") ? replaced(site) : null),
    finds: ["H030", "H048"],
  },
  {
    fault: "setmaxnreg asks for more than are free",
    class: "setmaxnreg",
    on: ["setmaxnreg"],
    edit: (site) =>
      site.instruction.modifiers.includes("inc")
        ? replaced(site, withOperand(site.instruction, 0, integer(256)))
        : null,
    finds: ["H030", "H048"],
  },
  {
    fault: "setmaxnreg in the wrong direction",
    class: "setmaxnreg",
    on: ["setmaxnreg"],
    edit: (site) =>
      replacedBy(site, modified(site.instruction, "dec", "inc") ?? modified(site.instruction, "inc", "dec")),
    finds: ["H030", "H048"],
  },
  {
    fault: "setmaxnreg by one warp",
    class: "setmaxnreg",
    on: ["setmaxnreg"],
    edit: (site) => {
      const after = definition(site, mutant.word.name);
      return after !== null
        ? null
        : replaced(
            site,
            instruction("mov.u32", mutant.word, { kind: "special", name: "%tid.x" }),
            instruction("and.b32", mutant.word, mutant.word, integer(96)),
            instruction("setp.eq.u32", mutant.yes, mutant.word, integer(0)),
            { ...site.instruction, guard: { register: mutant.yes, negated: false } },
          );
    },
    finds: ["H030", "H048"],
  },
];

export const signals: readonly Mutator[] = [
  ...fences,
  ...arrivals,
  ...counts,
  ...amounts,
  ...threads,
  ...cluster,
  ...registers,
];
