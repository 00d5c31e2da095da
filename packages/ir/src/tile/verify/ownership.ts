/** Every element of a register tile is held by exactly one (warp, lane, register), up to replication over whole tiers. */
import { type WeightedMode, weighted } from "../ownership.ts";
import type { Buffer, Of, OwnershipMode, Tier } from "../types.ts";
import { threadsAt } from "./distributions.ts";
import { bufferAt, type Fault, type Site, type Subject, type Verifier } from "./verifier.ts";

const inside: readonly Tier[] = ["cluster", "warpgroup", "warp", "thread", "register", "atom"];

const product = (factors: readonly OwnershipMode[]): number => factors.reduce((n, f) => n * f.extent, 1);

export const ownership: Verifier = {
  name: "ownership",
  code: "TW3111",
  property:
    "owners cover their tile: extents multiply to the shape, factors of a tier do not overlap, registers leave no gaps, an accumulator is spread over all warps and lanes without gaps, and its fragments are those of the same warps (of multiply-adds by threads, of the same lanes)",
  from: "nest",
  *check(subject) {
    const alone = subject.program.buffers.flatMap((buffer) => [...checkBuffer(buffer)]);
    yield* alone;
    if (alone.length > 0) return;
    const seen = new Set<string>();
    for (const site of subject.sites) {
      const sums = site.stmt.kind === "mma" || site.stmt.kind === "epilogue" ? site.stmt.acc.buffer : null;
      const beyond = sums === null || seen.has(sums) ? [] : [...reach(subject, site, sums)];
      if (sums !== null) seen.add(sums);
      yield* beyond;
      if (site.stmt.kind !== "mma") continue;
      const acc = bufferAt(subject, site.stmt.acc.buffer);
      if (acc.own === null) continue;
      const factors = [...acc.own.rows, ...acc.own.cols];
      const of = (tier: Tier): number => product(factors.filter((f) => f.tier === tier));
      // Lanes of a tensor-core fragment are the atom's own business.
      const lanes = factors.some((f) => f.tier === "atom") ? 32 : of("thread");
      const warps = of("warp") * of("warpgroup");
      const threads = threadsAt(subject, site);
      if (warps * lanes !== threads)
        yield {
          at: acc,
          message: `is spread over ${warps} warps of ${lanes} lanes, and ${threads / 32} warps of 32 multiply it`,
          hint: "the extents of tier warp multiply to the warps, those of tier thread to 32",
        };
      else if (beyond.length === 0) yield* fragments(subject, acc, site.stmt);
    }
  },
};

/** Sums are of warps that there are. */
function* reach(subject: Subject, site: Site, name: string): Iterable<Fault> {
  const { own } = bufferAt(subject, name);
  const warps = threadsAt(subject, site) / 32;
  const last = [...(own?.rows ?? []), ...(own?.cols ?? [])].reduce(
    (sum, f) => (f.tier === "warp" ? sum + (f.extent - 1) * f.stride : sum),
    0,
  );
  if (last >= warps)
    yield {
      at: `%${name}`,
      message: `is warp ${last}'s, too, and warps 0 to ${warps - 1} run ${site.stmt.kind}`,
      hint: "strides of tier warp without gaps: that of a factor is the product of the extents below it",
    };
}

/** Fragments in registers lie with those who add their products up: rows of A with the accumulator's, columns of B; along k nobody has less than another. */
function* fragments(subject: Subject, acc: Buffer, { a, b, atom }: Of<"mma">): Iterable<Fault> {
  const tiers: readonly Tier[] = atom === "fma" ? ["warp", "thread"] : ["warp"];
  for (const [view, across, along] of [
    [a, "rows", "cols"],
    [b, "cols", "rows"],
  ] as const) {
    const { own, name, shape } = bufferAt(subject, view.buffer);
    if (own === null || acc.own === null) continue;
    const size = shape[across === "rows" ? 0 : 1];
    for (const tier of tiers)
      if (
        own[along].some((f) => f.tier === tier && f.extent > 1) ||
        !alike(own[across], acc.own[across], tier, size)
      )
        yield {
          at: `%${name}`,
          message: `has its ${across} with other ${tier}s than %${acc.name}`,
          hint: `the factors of tier ${tier} that the ${across} of %${acc.name} have, none in its ${along}`,
        };
  }
}

/** Whether each element along an axis is the same one's of a tier. */
function alike(a: readonly OwnershipMode[], b: readonly OwnershipMode[], tier: Tier, size: number): boolean {
  const of = (factors: readonly OwnershipMode[]): readonly WeightedMode[] =>
    weighted(factors).filter((f) => f.tier === tier && f.extent > 1);
  const [own, other] = [of(a), of(b)];
  const same = (f: WeightedMode, i: number): boolean => {
    const g = other[i];
    return g !== undefined && f.extent === g.extent && f.stride === g.stride && f.weight === g.weight;
  };
  if (own.length === other.length && own.every(same)) return true;
  const at = (factors: readonly WeightedMode[], i: number): number =>
    factors.reduce((sum, f) => sum + (Math.floor(i / f.weight) % f.extent) * f.stride, 0);
  return Array.from({ length: size }, (_, i) => i).every((i) => at(own, i) === at(other, i));
}

function* checkBuffer(buffer: Buffer): Iterable<Fault> {
  const { own, space } = buffer;
  if (own === null) return;
  if (space !== "register") {
    yield { at: buffer, message: `${space} memory with an owner`, hint: "only register tiles have one" };
    return;
  }
  const axes = [
    { name: "rows", factors: own.rows, size: buffer.shape[0] },
    { name: "cols", factors: own.cols, size: buffer.shape[1] },
  ];
  for (const { name, factors, size } of axes)
    if (product(factors) !== size)
      yield {
        at: buffer,
        message: `own ${name} covers ${product(factors)} of ${size}`,
        hint: `the extents of ${name} multiply to ${size}`,
      };
  const all = [...own.rows, ...own.cols];
  for (const f of all)
    if (!inside.includes(f.tier))
      yield {
        at: buffer,
        message: `is owned by tier ${f.tier}`,
        hint: `tiers inside a block: ${inside.join(", ")}`,
      };
  for (const tier of inside) yield* checkTier(buffer, tier, all);
}

/** Factors sorted by stride must be the digits of a mixed-radix number; for registers without gaps. */
function* checkTier(buffer: Buffer, tier: Tier, all: readonly OwnershipMode[]): Iterable<Fault> {
  const factors = all.filter((f) => f.tier === tier && f.extent > 1).sort((a, b) => a.stride - b.stride);
  const text = (f: OwnershipMode): string => `${tier} ${f.extent}:${f.stride}`;
  let reach = 1;
  for (const f of factors) {
    if (f.stride < reach || f.stride % reach !== 0) {
      yield {
        at: buffer,
        message: `factor ${text(f)} overlaps the factors below it, which reach ${reach}`,
        hint: `a stride that is a multiple of ${reach}`,
      };
      return;
    }
    if (tier === "register" && f.stride !== reach)
      yield {
        at: buffer,
        message: `factor ${text(f)} leaves registers ${reach} to ${f.stride - 1} unused`,
        hint: `write ${tier} ${f.extent}:${reach}`,
      };
    reach = f.stride * f.extent;
  }
  if (tier === "thread" && reach > 32)
    yield { at: buffer, message: `reaches lane ${reach - 1}`, hint: "a warp has lanes 0 to 31" };
}
