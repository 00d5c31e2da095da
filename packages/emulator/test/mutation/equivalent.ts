/** Mutants that are right kernels, with the reason. They are planted but not counted. */
export const equivalent: readonly { readonly reason: string; readonly mutants: readonly string[] }[] = [
  {
    reason: "The prologue fills two of three stages, so its counter reaches neither three nor four.",
    mutants: ["best_mma_cpasync: one stage more than there are, 102:55"],
  },
  {
    reason: "The fragment that is read late is the next stage's; what is released is the stage before.",
    mutants: ["best_mma_ws: released before the last read, 443:3"],
  },
  {
    reason:
      "tcgen05.alloc and tcgen05.dealloc are not asynchronous: barriers order them, and the loads before dealloc have been waited for (tcgen05.wait::ld). tcgen05 fences order asynchronous operations only (PTX ISA 9.0, chapter 9.7.16.6).",
    mutants: [
      "tcgen05_1cta: tcgen05.fence::after_thread_sync dropped, 51:1",
      "tcgen05_1cta: tcgen05.fence::after_thread_sync dropped, 237:1",
      "tcgen05_1cta: tcgen05.fence::before_thread_sync dropped, 49:1",
      "tcgen05_1cta: tcgen05.fence::before_thread_sync dropped, 232:1",
      "tcgen05_2cta: tcgen05.fence::after_thread_sync dropped, 54:1",
      "tcgen05_2cta: tcgen05.fence::after_thread_sync dropped, 245:1",
      "tcgen05_2cta: tcgen05.fence::before_thread_sync dropped, 51:1",
      "tcgen05_2cta: tcgen05.fence::before_thread_sync dropped, 239:1",
      "skel_sm100_2cta_clc: tcgen05.fence::after_thread_sync dropped, 42:1",
      "skel_sm100_2cta_clc: tcgen05.fence::after_thread_sync dropped, 372:1",
      "skel_sm100_2cta_clc: tcgen05.fence::before_thread_sync dropped, 40:1",
      "skel_sm100_2cta_clc: tcgen05.fence::before_thread_sync dropped, 370:1",
    ],
  },
  {
    reason:
      "The kernel has one tile and one thread issues all products: no other thread has touched tensor memory before, and operands in shared memory are ordered by their mbarrier.",
    mutants: [
      "tcgen05_1cta: tcgen05.fence::after_thread_sync dropped, 100:1",
      "tcgen05_2cta: tcgen05.fence::after_thread_sync dropped, 106:1",
    ],
  },
  {
    reason:
      "The thread waits for the accumulator, fences, waits for its operands and fences: either fence will do. Without both it is a fault, which is planted too.",
    mutants: [
      "skel_sm100_2cta_clc: tcgen05.fence::after_thread_sync dropped, 82:1",
      "skel_sm100_2cta_clc: tcgen05.fence::after_thread_sync dropped, 86:1",
    ],
  },
  {
    reason:
      "What passes here is tensor memory, and tcgen05 fences stand on the waiting or the arriving side: with them a relaxed mbarrier is enough (PTX ISA 9.0, chapter 9.7.16.6.4).",
    mutants: [
      "tcgen05_1cta: wait relaxed, 139:1",
      "tcgen05_2cta: wait relaxed, 146:1",
      "skel_sm100_2cta_clc: arrival relaxed, 327:1",
      "skel_sm100_2cta_clc: wait relaxed, 81:6",
    ],
  },
];
