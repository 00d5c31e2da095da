/** Tensor memory and cluster launch control. */
import type { Statement } from "@tilewright/ptx";
import {
  following,
  instruction,
  integer,
  isAddress,
  isInteger,
  modified,
  movedDown,
  mutant,
  operandOf,
  replaced,
  replacedBy,
  type Site,
  shifted,
  withOperand,
} from "./edit.ts";
import { type Mutator, tensorOrder, uneven } from "./mutator.ts";

const columnsOf = (site: Site, change: (n: bigint) => bigint): readonly Statement[] | null => {
  const n = site.instruction.operands[1];
  return isInteger(n) ? replaced(site, withOperand(site.instruction, 1, integer(change(n.value)))) : null;
};

const otherGroup = (site: Site): readonly Statement[] | null =>
  replacedBy(
    site,
    modified(site.instruction, "cta_group::1", "cta_group::2") ??
      modified(site.instruction, "cta_group::2", "cta_group::1"),
  );

/** The address of tensor memory moved by `by`: lanes in the upper half, columns in the lower. */
const elsewhere = (site: Site, by: number): readonly Statement[] | null => {
  const at = operandOf(site.instruction, "address");
  const address = site.instruction.operands[at];
  if (!isAddress(address) || address.base.kind !== "register") return null;
  return replaced(
    site,
    instruction("add.u32", mutant.word, address.base, integer(by)),
    withOperand(site.instruction, at, { ...address, base: mutant.word }),
  );
};

/** The predicate that says whether a product adds to what is there. */
const accumulates = (site: Site, yes: boolean): readonly Statement[] =>
  replaced(
    site,
    instruction(yes ? "setp.eq.u32" : "setp.ne.u32", mutant.yes, integer(0), integer(0)),
    withOperand(site.instruction, 4, mutant.yes),
  );

const memory: readonly Mutator[] = [
  {
    fault: "tcgen05.dealloc dropped",
    class: "tensor memory",
    on: ["tcgen05.dealloc"],
    edit: (site) => replaced(site),
    finds: ["H088"],
  },
  {
    fault: "half of the columns given back",
    class: "tensor memory",
    on: ["tcgen05.dealloc"],
    edit: (site) => columnsOf(site, (n) => n / 2n),
    finds: ["H087", "H088"],
  },
  {
    fault: "half of the columns allocated",
    class: "tensor memory",
    on: ["tcgen05.alloc"],
    edit: (site) => columnsOf(site, (n) => n / 2n),
    finds: ["H080", "H087"],
  },
  {
    fault: "allocated after giving up the permit",
    class: "tensor memory",
    on: ["tcgen05.alloc"],
    edit: (site) => {
      const permit = following(site, (i) => i.opcode === "tcgen05.relinquish_alloc_permit");
      return permit === null ? null : movedDown(site.body, site.at, permit.at);
    },
    finds: ["H087"],
  },
  {
    fault: "allocated twice",
    class: "tensor memory",
    on: ["tcgen05.alloc"],
    edit: (site) => replaced(site, site.instruction, site.instruction),
    finds: ["H030", "H087", "H088"],
  },
  {
    fault: "the other cta_group",
    class: "tensor memory",
    on: ["tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit"],
    edit: otherGroup,
    finds: ["H075", "H087", "H030"],
    most: 3,
  },
  {
    fault: "the other cta_group in products",
    class: "tensor memory",
    on: ["tcgen05.mma", "tcgen05.commit"],
    edit: otherGroup,
    finds: ["H030", "H072", "H074", "H075", "H076", "H083", "H087"],
    most: 2,
  },
  {
    fault: "lanes of the next warp",
    class: "tensor memory",
    on: ["tcgen05.ld"],
    edit: (site) => elsewhere(site, 32 << 16),
    finds: ["H082"],
  },
  {
    fault: "accumulator 16 lanes down",
    class: "tensor memory",
    on: ["tcgen05.mma"],
    edit: (site) => elsewhere(site, 16 << 16),
    finds: ["H074"],
    most: 1,
  },
  {
    fault: "eight columns on",
    class: "tensor memory",
    on: ["tcgen05.ld", "tcgen05.mma"],
    edit: (site) => elsewhere(site, 8),
    finds: ["H080", "H081", "H074", "H083", "numbers"],
    most: 3,
  },
  {
    fault: "columns beyond the allocation",
    class: "tensor memory",
    on: ["tcgen05.ld", "tcgen05.mma"],
    edit: (site) => elsewhere(site, 480),
    finds: ["H080"],
    most: 2,
  },
  {
    fault: "the first product adds to what is there",
    class: "tensor memory",
    on: ["tcgen05.mma"],
    edit: (site) => accumulates(site, true),
    finds: ["H081", "numbers"],
    most: 1,
  },
  {
    fault: "the last product replaces the sum",
    class: "tensor memory",
    on: ["tcgen05.mma"],
    edit: (site) => {
      const later = following(site, (i) => i.opcode === "tcgen05.mma");
      return later === null ? accumulates(site, false) : null;
    },
    finds: ["numbers"],
    most: 1,
  },
  {
    fault: "the address of tensor memory written elsewhere",
    class: "tensor memory",
    on: ["tcgen05.alloc"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 4)),
    finds: ["H006"],
  },
];

const control: readonly Mutator[] = [
  {
    fault: "request dropped",
    class: "cluster launch control",
    on: ["clusterlaunchcontrol.try_cancel"],
    edit: (site) => replaced(site),
    finds: ["H030"],
  },
  {
    fault: "request doubled",
    class: "cluster launch control",
    on: ["clusterlaunchcontrol.try_cancel"],
    edit: (site) => replaced(site, site.instruction, site.instruction),
    finds: [...uneven, "H014", "H035", "H089"],
  },
  {
    fault: "response to one block only",
    class: "cluster launch control",
    on: ["clusterlaunchcontrol.try_cancel"],
    edit: (site) => replacedBy(site, modified(site.instruction, "multicast::cluster::all", null)),
    finds: ["H030", "H089"],
  },
  {
    fault: "index taken without asking for one",
    class: "cluster launch control",
    on: ["clusterlaunchcontrol.query_cancel"],
    edit: (site) =>
      site.instruction.guard === null ? null : replaced(site, { ...site.instruction, guard: null }),
    finds: ["H089"],
    most: 3,
  },
  {
    fault: "another request after a refused one",
    class: "cluster launch control",
    on: ["clusterlaunchcontrol.query_cancel"],
    edit: (site) => {
      // The branch that ends the loop when there is nothing more.
      if (!site.instruction.modifiers.includes("is_canceled")) return null;
      const out = following(site, (i) => i.opcode === "bra" && i.guard !== null);
      return out === null ? null : replaced(out);
    },
    finds: ["H030", "H089", "H008"],
    most: 3,
  },
  {
    fault: "response 8 bytes on",
    class: "cluster launch control",
    on: ["clusterlaunchcontrol.try_cancel"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 8)),
    finds: ["H004", "H053", "H089"],
  },
  {
    fault: "response of the other slot",
    class: "cluster launch control",
    on: ["clusterlaunchcontrol.try_cancel"],
    edit: (site) => replacedBy(site, shifted(site.instruction, 16)),
    finds: ["H006", "H014", "H034", "H035", "H042", "H089", ...tensorOrder],
  },
];

export const tensor: readonly Mutator[] = [...memory, ...control];
