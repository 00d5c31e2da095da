/**
 * The synchronisation of a kernel as a list of words: as a plan has it, and as a PTX text has it. Where both are equal, what is proven of the plan
 * holds for the text, as far as the words go: kinds, order, groups, bytes, columns and initial counts, not addresses and parities.
 */
import type { ProtocolAction, ProtocolPlan, ProtocolStep } from "@tilewright/ir";

/** Instructions of the text by what they are. */
const instructions: readonly (readonly [pattern: RegExp, word: (match: RegExpExecArray) => string])[] = [
  [/^mbarrier\.init\S* \[[^\]]*\], (\d+)/, ([, count]) => `init ${count}`],
  [/^fence\.mbarrier_init/, () => "fence init"],
  [/^fence\.proxy\.async/, () => "fence async"],
  [/^tcgen05\.fence::(before|after)/, ([, side]) => `fence tensor ${side}`],
  [
    /^tcgen05\.alloc\.cta_group::(\d)\S* \[[^\]]*\], (\d+)/,
    ([, group, columns]) => `alloc ${columns} group ${group}`,
  ],
  [
    /^tcgen05\.dealloc\.cta_group::(\d)\S* %\w+, (\d+)/,
    ([, group, columns]) => `dealloc ${columns} group ${group}`,
  ],
  [/^tcgen05\.relinquish_alloc_permit\.cta_group::(\d)/, ([, group]) => `relinquish group ${group}`],
  [/^barrier\.cluster\.wait/, () => "meet"],
  [/^bar\.sync 0/, () => "meet"],
  [/^bar\.sync %/, () => "gather"],
  // 11 is that of warps of one role that meet for parts of tiles.
  [/^bar\.sync ([89]|10), /, () => "turn"],
  // A role that begins early passes the block's barrier by.
  [/^bar\.arrive (?!0,)/, () => "pass"],
  [/^atom\S*\.inc/, () => "take"],
  [/^(st\.shared|stmatrix)/, () => "stage"],
  [/^cp\.async\.bulk\.tensor\.\dd\.global/, () => "store"],
  [/^cp\.async\.bulk\.wait_group/, () => "stored"],
  [/^wgmma\.mma_async/, () => "multiply group 1"],
  [/^wgmma\.wait_group/, () => "drain"],
  [/^mbarrier\.try_wait/, () => "wait"],
  [/^mbarrier\.arrive\.expect_tx\S* _, \[[^\]]*\], (\d+)/, ([, bytes]) => `expect ${bytes}`],
  [/^(cp\.async\.)?mbarrier\.arrive/, () => "arrive"],
  [/^cp\.async\.c[ag]\./, () => "copy"],
  [/^cp\.async\.bulk\.tensor\.\dd\.shared/, () => "copy"],
  [/^clusterlaunchcontrol\.try_cancel/, () => "copy"],
  [/^tcgen05\.mma\.cta_group::(\d)/, ([, group]) => `multiply group ${group}`],
  [/^tcgen05\.cp\.cta_group::(\d)/, ([, group]) => `factors group ${group}`],
  [/^tcgen05\.commit\.cta_group::(\d)\S*?(\.multicast)?/, ([, group]) => `commit group ${group}`],
  [/^tcgen05\.ld/, () => "read"],
  [/^tcgen05\.wait::ld/, () => "loaded"],
];

/** Copies of a chunk and stores are cut into boxes, a multiplication, a load and a staged tile into instructions. */
const runs = (words: readonly string[]): readonly string[] =>
  words.filter(
    (word, i) => !/^(copy|multiply|factors|read|stage$|store$)/.test(word) || word !== words[i - 1],
  );

/** The words of a PTX text, in its order. */
export function textWords(ptx: string): readonly string[] {
  const words: string[] = [];
  for (const line of ptx.split("\n")) {
    const text = line.trim().replace(/^@!?%\w+ /, "");
    for (const [pattern, word] of instructions) {
      const match = pattern.exec(text);
      if (match === null) continue;
      words.push(word(match));
      break;
    }
  }
  return runs(words);
}

/** The words of a plan, in the order of its roles. Loops over anything but K chunks are unrolled. */
export function planWords(plan: ProtocolPlan): readonly string[] {
  const steps = (all: readonly ProtocolStep[]): readonly string[] =>
    all.flatMap((step) => {
      if (step.kind === "do") return step.actions.flatMap((action) => wordsOf(plan, action));
      const body = steps(step.body);
      // By the visits of others to the role's own first, and from each to its next.
      if (step.kind === "tiles" && step.others.length > 0) {
        const others = steps(step.others);
        const times = (count: number): readonly string[] =>
          Array.from({ length: count }, () => others).flat();
        return [...times(step.turn), ...body, ...times(step.of - 1)];
      }
      if (step.kind !== "for" || step.chunks || step.from.kind !== "const" || step.to.kind !== "const")
        return body;
      return Array.from({ length: step.to.value - step.from.value }, () => body).flat();
    });
  return runs([
    ...plan.begin.flatMap((action) => wordsOf(plan, action)),
    ...plan.roles.flatMap(({ body }) => steps(body)),
    ...plan.end.flatMap((action) => wordsOf(plan, action)),
  ]);
}

/** Blocks that are told one by one; elsewhere one instruction of several threads, or of an engine, tells all. */
const told = ({ cluster }: ProtocolPlan, { reach }: { readonly reach: string }): number =>
  reach === "cluster" ? cluster[0] * cluster[1] : 1;

function wordsOf(plan: ProtocolPlan, action: ProtocolAction): readonly string[] {
  switch (action.kind) {
    case "init": {
      const leads = (name: string, edge: string, slot: number): boolean =>
        name === action.lead?.ring && edge === "full" && slot === 0;
      return plan.rings.flatMap(({ name, slots, arrivals }) =>
        (["full", "empty"] as const).flatMap((edge) =>
          Array.from({ length: slots }, (_, slot) => slot)
            .filter((slot) => action.lead === undefined || leads(name, edge, slot) === action.lead.own)
            .map(() => `init ${arrivals[edge]}`),
        ),
      );
    }
    case "alloc":
    case "dealloc":
      return [`${action.kind} ${action.columns} group ${action.group}`];
    case "relinquish":
    case "commit":
      return [`${action.kind} group ${action.group}`];
    case "multiply":
      // The first instruction of a tile overwrites what was there.
      return action.operands.length === 0 ? [] : [`multiply group ${action.group}`];
    case "factors":
      return [`factors group ${action.group}`];
    case "fence":
      return [`fence ${action.what}`];
    case "expect":
      return Array.from({ length: told(plan, action) }, () => `expect ${action.bytes}`);
    case "arrive":
      return Array.from({ length: told(plan, action) }, () => "arrive");
    case "put":
      return action.bytes !== undefined ? ["copy"] : ["take", "stage"];
    case "read":
      return action.proxy === "tensor" ? ["read"] : [];
    case "last turn":
      return ["turn"];
    case "mark":
    case "use":
      return [];
    default:
      return [action.kind];
  }
}
