/** Which schedule first: what won on hardware, then the legal ones by the time that the model predicts. */
import {
  type DType,
  type Problem,
  type Schedule,
  sizeOf,
  symbolicSizes,
  type Target,
} from "@tilewright/core";
import {
  afterTransposing,
  completedBy,
  defaultSchedule,
  epilogueWork,
  type Machine,
  type SearchSpace,
  shippedFor,
  sourceMatrices,
  storedSchedule,
} from "@tilewright/ir";
import { isLegal } from "./check.ts";
import { kernelOf } from "./cost.ts";
import { wholePanels } from "./forms.ts";
import { isKMajor, needsKMajor } from "./instructions.ts";
import { readSchedule, scheduleModel } from "./schedule.ts";
import { type Attempts, attemptsBy, type Trial, trialsOf, waysOf } from "./space.ts";

/** Instructions of f16 take as long as those of bf16. */
const timedAs = (dtype: DType): DType => (dtype === "f16" ? "bf16" : dtype);

/** A schedule from the store, and whether it was timed with the problem's own epilogue, beside which its kernel spills nothing. */
interface Winner {
  readonly schedule: Schedule;
  readonly own: boolean;
}

/** Steps as text, in which f16 stands for what bf16 is timed as. */
const stepsText = ({ epilogue, c }: Problem): string =>
  JSON.stringify([c === null, epilogue], (_, value) => (value === "f16" ? timedAs(value) : value));

/** Factors of blocks and the kind of batch as text: kernels of other ones are none of this. */
const kindText = ({ blockScales, batch }: Problem): string => JSON.stringify([blockScales, batch]);

/**
 * The shipped schedule of this size, these dtypes, sums, factors of blocks and experts: with this epilogue, else with none where this one reads no matrices. Of 16 bits in every layout, where
 * 128x320 alone is slower with a B that lies along n.
 */
function winnerOf(problem: Problem, target: Target, machine: Machine): Winner | null {
  const { a, b } = problem;
  if (a.dtype !== b.dtype) return null;
  const kind = kindText(problem);
  const timed = shippedFor("wgmma", problem, target, machine).filter(
    ({ problem: of }) =>
      of.a.dtype === timedAs(a.dtype) && of.precision === problem.precision && kindText(of) === kind,
  );
  const steps = stepsText(problem);
  const same = timed.find(({ problem: of }) => stepsText(of) === steps);
  const plain = timed.find(({ problem: of }) => of.epilogue.length === 0 && of.c === null);
  const winner = same ?? (sourceMatrices(problem).length === 0 ? plain : undefined);
  if (winner === undefined) return null;
  const schedule = storedSchedule(scheduleModel, winner.entry.schedule);
  const { tileN, groupsN } = readSchedule(schedule);
  return isKMajor(problem) || (!needsKMajor(problem) && wholePanels(problem, tileN / groupsN, false))
    ? { schedule, own: winner === same }
    : null;
}

/** A trial, and what became of it so far by one of the problem's ways. */
interface Attempt {
  readonly trial: Trial;
  readonly of: Attempts;
}

/** The stored winner, then what is tried in the order of its predicted time, those alike in the order of the space. By bulk copies and stores first, by threads where those do not serve. */
export function spaceOf(problem: Problem, target: Target, machine: Machine): SearchSpace<Attempt> {
  const winner = winnerOf(problem, target, machine);
  return {
    winners: winner === null ? [] : [winner.schedule],
    *candidates() {
      for (const rivals of waysOf(problem))
        yield rivals.flatMap((way) => {
          const { transpose } = readSchedule({ ...defaultSchedule(scheduleModel), ...way });
          const seen = afterTransposing(problem, transpose);
          const of = attemptsBy(way, seen, target);
          return trialsOf(seen, machine).map((trial) => ({ trial, of }));
        });
    },
    shape: ({ trial: { form, split } }) => ({ tile: form.tile, split }),
    // Of a tile and a chunk the bound is that of one kernel, however its blocks come to tiles.
    bound({ trial: { form, tileK, spread, split }, of }) {
      const { ahead, sched, direct, reduction } = spread;
      return {
        key: `${of.name} ${form.tile} ${form.groups} ${form.pingPong} ${form.swapAB} ${tileK} ${ahead}`,
        kernel() {
          const s = of.read({ form, tileK, split: 1, spread: { ...of.plain, ahead } });
          return s && { ...kernelOf(problem, s, target, s.room), residents: s.room.residents };
        },
        spread: ({ residents }) => ({
          split,
          alone: sched === "persistent" || (residents === 1 && !direct),
          combine: [reduction],
        }),
      };
    },
    complete({ trial, of }) {
      const s = of.read(trial);
      return (
        s && completedBy(problem, kernelOf(problem, s, target, s.room), machine, () => of.write(trial, s))
      );
    },
    offer: (schedule) =>
      winner?.own === true && schedule === winner.schedule ? [schedule] : roomy(problem, schedule, target),
  };
}

/**
 * Registers for what an epilogue reads and computes beside the sums: 112 of them spill 48 and 128 spill 56 bytes as a block is launched, 160 and 192 of them 12 to 40 under any budget
 * (ptxas 13.0; a bias along m with silu, along n with gelu). Of a gated product that stages 16 bits of half as many columns 160 and 192 spill nothing (vectors along both axes with
 * gelu).
 */
function roomy(problem: Problem, schedule: Schedule, target: Target): readonly Schedule[] {
  if (!isLegal(problem, schedule, target)) return [];
  const s = readSchedule(schedule);
  const sums = (s.tileM * s.tileN) / (s.groupsM * s.groupsN) / WARPGROUP;
  if (s.copy === "direct" && sums > mostSumsOfDirect(problem)) return [];
  if (problem.epilogue.length === 0 || s.copy === "direct" || sums < TIGHT_SUMS) return [schedule];
  // Words staged for bulk stores of 32-bit results take the last of them where sets of warpgroups ping-pong (8 bytes).
  const narrow = sizeOf(problem.d.dtype) <= 2;
  const most = s.pingPong > 1 && !narrow ? TIGHT_SUMS : ROOMY_SUMS;
  const joined = epilogueWork(problem).share < 1 && narrow && s.epi === "tma";
  const matrices = problem.epilogue.some((step) => "operand" in step);
  if (sums > most && (!joined || matrices)) return [];
  const budgeted = { ...schedule, regs: s.copy === "tma" ? [24, 240] : [...BUSY_BUDGET] };
  return [s.regs === null && isLegal(problem, budgeted, target) ? budgeted : schedule];
}

/**
 * Sums of a thread that loads its elements itself: those on their way have a register each, and of sizes that come with the launch an address, too. Beside 160 and
 * 192 sums 4 to 88 bytes are spilled (ptxas 13.0), of a group, whose pointers have registers as well, 52 beside 128, and 80 beside 112 where an element is a byte.
 */
const mostSumsOfDirect = (problem: Problem): number =>
  problem.batch.kind === "grouped"
    ? sizeOf(problem.a.dtype) === 1
      ? BYTE_SUMS
      : TIGHT_SUMS
    : symbolicSizes(problem).length > 0
      ? ROOMY_SUMS
      : Number.POSITIVE_INFINITY;

const WARPGROUP = 128;

/** Sums of a thread from which on an epilogue needs a budget of its own, most of them that leave it enough, and most of them beside elements of a byte of a group. */
const TIGHT_SUMS = 112;
const BYTE_SUMS = 96;
const ROOMY_SUMS = 128;

/** Of a producer whose threads copy, and of math warpgroups beside it. */
const BUSY_BUDGET = [40, 232] as const;
