/** Fences of memory and between proxies: PTX ISA 9.0, chapter 9.7.13.4. */
import type { Instruction, Operation } from "../load/types.ts";
import { fenceInitialisations } from "../machine/mbarriers.ts";
import type { Machine, Warp } from "../machine/state.ts";
import type { Row } from "./row.ts";
import { lanesOf } from "./warp.ts";

/**
 * What fence.proxy.tensormap::generic does is the matter of the engine that reads tensor maps: it keeps a function of this
 * type in its cluster's `engines` under `tensormapFence`. `address` is the map's generic address; null for `.release`.
 */
type TensormapFence = (
  machine: Machine,
  warp: Warp,
  instruction: Instruction,
  lane: number,
  address: { readonly low: number; readonly high: number } | null,
) => void;
const tensormapFence = "tensormap-fence";

const memoryFence: Operation = {
  kind: "warp",
  bind: () => (warp) => {
    warp.block.race?.clocks.fence(warp.agent);
  },
};

export const membar: Row = (d) => {
  d.choice("cta", "gl", "sys");
  return memoryFence;
};

/** What is known so far becomes visible to the async proxy; initialised mbarriers too. */
const asyncProxyFence: Operation = {
  kind: "warp",
  bind: () => (warp) => {
    warp.block.race?.clocks.proxyFence(warp.agent);
    fenceInitialisations(warp);
  },
};

const scopes = ["cta", "cluster", "gpu", "sys"] as const;

const proxyFence: Row = (d) => {
  const proxy = d.choice("alias", "async", "async::generic", "tensormap::generic");
  switch (proxy) {
    case "alias":
      // Several virtual addresses of one location, which there are none of here.
      return { kind: "lane", emit: () => "" };
    case "async": {
      // Only shared memory is followed between proxies; a fence for global memory says nothing about it.
      const space = d.option("global", "shared::cta", "shared::cluster");
      return space === "global" ? { kind: "lane", emit: () => "" } : asyncProxyFence;
    }
    case "async::generic":
      d.choice("acquire", "release");
      d.choice("sync_restrict::shared::cluster", "sync_restrict::shared::cta");
      d.choice("cluster");
      return asyncProxyFence;
    case "tensormap::generic":
      return tensormapProxyFence(d);
    default:
      proxy satisfies never;
      return memoryFence;
  }
};

const tensormapProxyFence: Row = (d) => {
  const acquire = d.choice("acquire", "release") === "acquire";
  d.choice(...scopes);
  const operand = acquire ? d.address(0) : null;
  if (acquire && d.literal(1) !== 128) d.refuse("a tensor map has 128 bytes");
  return {
    kind: "warp",
    bind: (machine, instruction) => (warp, mask) => {
      const act = warp.block.cluster.engines.get(tensormapFence) as TensormapFence | undefined;
      for (const lane of lanesOf(mask)) {
        const address =
          operand === null
            ? null
            : {
                low: machine.address(warp, operand, lane),
                high: machine.lane(warp, operand.base, lane, 1),
              };
        act?.(machine, warp, instruction, lane, address);
      }
    },
  };
};

export const fence: Row = (d) => {
  if (d.flag("proxy")) return proxyFence(d);
  if (d.flag("mbarrier_init")) {
    d.choice("release");
    d.choice("cluster");
    return { kind: "warp", bind: () => (warp) => fenceInitialisations(warp) };
  }
  d.option("sc", "acq_rel", "acquire", "release");
  d.option("sync_restrict::shared::cluster", "sync_restrict::shared::cta");
  d.choice(...scopes);
  return memoryFence;
};
