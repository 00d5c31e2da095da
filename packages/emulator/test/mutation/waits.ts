/** Waits that are dropped, come too late or wait for too little, and parities. */
import type { Instruction, Operand, Statement } from "@tilewright/ptx";
import {
  definition,
  following,
  instruction,
  integer,
  isInteger,
  isRegister,
  movedDown,
  mutant,
  replaced,
  type Site,
  withOperand,
  without,
} from "./edit.ts";
import { early, type Mutator, races, tensorOrder, uneven } from "./mutator.ts";

const tryWaits = [
  "mbarrier.try_wait.parity",
  "mbarrier.try_wait",
  "mbarrier.test_wait.parity",
  "mbarrier.test_wait",
] as const;

/** The branch that asks a try_wait again, behind it. */
function loopOf(site: Site): Site | null {
  const answer = site.instruction.operands[0];
  return following(
    site,
    (i) =>
      i.opcode === "bra" &&
      i.guard?.negated === true &&
      isRegister(answer) &&
      i.guard.register.name === answer.name,
  );
}

/** The wait without the loop around it: what comes after it no longer waits for anything. */
function waitDropped(site: Site): readonly Statement[] | null {
  const loop = loopOf(site);
  return loop === null ? null : without(site.body, site.at, loop.at);
}

const parityAt = 2;
function withParity(
  site: Site,
  parity: (old: Operand) => readonly [readonly Instruction[], Operand],
): readonly Statement[] | null {
  const old = site.instruction.operands[parityAt];
  if (old === undefined) return null;
  const [before, operand] = parity(old);
  return replaced(site, ...before, withOperand(site.instruction, parityAt, operand));
}

/** Whether the kernel comes to the site again with another parity: a loop around it other than the wait's own. */
function repeated(site: Site): boolean {
  const own = site.at - 1;
  return site.body.some((s, k) => {
    const to = s.kind === "instruction" && s.opcode === "bra" ? s.operands[0] : undefined;
    const label =
      to?.kind === "symbol" ? site.body.findIndex((x) => x.kind === "label" && x.name === to.name) : -1;
    return k > site.at && label >= 0 && label < own;
  });
}

const laxer = (site: Site): readonly Statement[] | null => {
  const [n] = site.instruction.operands;
  return isInteger(n) ? replaced(site, withOperand(site.instruction, 0, integer(n.value + 1n))) : null;
};
const dropped = (site: Site): readonly Statement[] => replaced(site);

/** Instructions that tell another thread that a stage, an accumulator or a tile may be used again. */
const releases = (i: Instruction): boolean => i.opcode === "mbarrier.arrive" || i.opcode === "tcgen05.commit";

/** Names of the registers of an operand. */
function registersOf(operand: Operand | undefined): readonly string[] {
  if (operand?.kind === "vector") return operand.elements.flatMap(registersOf);
  return isRegister(operand) ? [operand.name] : [];
}

/** The body with a release, and what its guard comes from, in front of `site`. */
function releasedBefore(site: Site, release: Site): readonly Statement[] {
  const { guard } = release.instruction;
  const chosen = guard === null ? null : definition(release, guard.register.name);
  const places = [...(chosen !== null && chosen.at > site.at ? [chosen.at] : []), release.at];
  const moved = places.flatMap((at) => release.body[at] ?? []);
  return [...site.body.slice(0, site.at), ...moved, ...without(site.body, ...places).slice(site.at)];
}

export const waits: readonly Mutator[] = [
  {
    fault: "the wait of an mbarrier dropped",
    class: "dropped wait",
    on: tryWaits,
    edit: waitDropped,
    // Running ahead shows as data not there yet, as a stage overwritten, or as the protocol coming apart.
    finds: [...races, ...early, ...tensorOrder, ...uneven, "H089"],
    most: 4,
  },
  {
    fault: "cp.async.wait_group dropped",
    class: "dropped wait",
    on: ["cp.async.wait_group", "cp.async.wait_all"],
    edit: dropped,
    finds: ["H013", "H014", "H015"],
  },
  {
    fault: "cp.async.wait_group leaves one group more",
    class: "wait for too little",
    on: ["cp.async.wait_group"],
    edit: laxer,
    finds: ["H013", "H014", "H015"],
  },
  {
    fault: "wgmma.wait_group dropped",
    class: "dropped wait",
    on: ["wgmma.wait_group"],
    edit: dropped,
    finds: ["H035", "H060", "H065"],
  },
  {
    fault: "wgmma.wait_group leaves one group more",
    class: "wait for too little",
    on: ["wgmma.wait_group"],
    edit: laxer,
    finds: ["H035", "H060", "H065"],
  },
  {
    fault: "cp.async.bulk.wait_group dropped",
    class: "dropped wait",
    on: ["cp.async.bulk.wait_group"],
    edit: dropped,
    finds: ["H035", "H054"],
    most: 6,
  },
  {
    fault: "cp.async.bulk.wait_group leaves one group more",
    class: "wait for too little",
    on: ["cp.async.bulk.wait_group"],
    edit: laxer,
    finds: ["H035", "H054"],
    most: 3,
  },
  {
    fault: "tcgen05.wait::ld dropped",
    class: "dropped wait",
    on: ["tcgen05.wait::ld", "tcgen05.wait::st"],
    edit: dropped,
    finds: ["H086"],
    most: 3,
  },
  {
    fault: "bar.sync dropped",
    class: "dropped wait",
    on: ["bar"],
    edit: dropped,
    finds: [...races, ...early, ...tensorOrder, "H006", "H033", "H040", "H046", "H080", "H087"],
    most: 4,
  },
  {
    fault: "parity inverted",
    class: "wrong parity",
    on: ["mbarrier.try_wait.parity"],
    edit: (site) =>
      withParity(site, (old) =>
        isInteger(old)
          ? [[], integer(old.value ^ 1n)]
          : [[instruction("xor.b32", mutant.word, old, integer(1))], mutant.word],
      ),
    finds: [...races, ...early, ...tensorOrder, ...uneven, "H089"],
    most: 4,
  },
  {
    fault: "parity always 0",
    class: "wrong parity",
    on: ["mbarrier.try_wait.parity"],
    edit: (site) => (repeated(site) ? withParity(site, () => [[], integer(0)]) : null),
    finds: [...races, ...early, ...tensorOrder, ...uneven, "H089"],
    most: 3,
  },
  {
    fault: "released before the wait",
    class: "early release",
    on: ["wgmma.wait_group", "tcgen05.wait::ld"],
    edit: (site) => {
      const release = following(site, releases);
      return release === null ? null : movedDown(site.body, site.at, release.at);
    },
    finds: ["H035", "H060", "H083", "H085", "H086"],
  },
  {
    fault: "released before the last read",
    class: "early release",
    on: ["ldmatrix", "ld", "tcgen05.ld"],
    edit: (site) => {
      const shared = site.instruction.opcode !== "ld" || site.instruction.modifiers.includes("shared");
      const release = shared
        ? following(site, (i) => releases(i) || (i.opcode === "bar" && i.modifiers.includes("sync")))
        : null;
      if (release === null) return null;
      // Only the last read in front of the release: nothing of its kind between them.
      const between = following(site, (i) => i.opcode === site.instruction.opcode);
      return between !== null && between.at < release.at ? null : movedDown(site.body, site.at, release.at);
    },
    finds: ["H009", "H010", "H035", "H083", "H086", "H008", "numbers"],
  },
  {
    fault: "released while the last load is under way",
    class: "early release",
    on: ["ldmatrix"],
    edit: (site) => {
      const loaded = registersOf(site.instruction.operands[0]);
      const use = (i: Instruction): boolean =>
        i.operands.some((operand) => registersOf(operand).some((name) => loaded.includes(name)));
      // One that is used behind a branch only, past the wait for the next stage.
      const used = following(site, use) === null ? following(site, use, true) : null;
      const release = used === null ? null : following(used, releases);
      return used === null || release === null ? null : releasedBefore(used, release);
    },
    finds: ["H090"],
  },
  {
    fault: "committed before the last product",
    class: "early release",
    on: ["tcgen05.mma", "wgmma.mma_async"],
    edit: (site) => {
      const commit = following(
        site,
        (i) => i.opcode === "tcgen05.commit" || i.opcode === "wgmma.commit_group",
      );
      if (commit === null) return null;
      const between = following(site, (i) => i.opcode === site.instruction.opcode);
      return between !== null && between.at < commit.at ? null : movedDown(site.body, site.at, commit.at);
    },
    finds: ["H014", "H035", "H060", "H064", "H083", "H088"],
  },
];
