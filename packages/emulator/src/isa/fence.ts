/** Fences of memory and between proxies, but for those of tensor maps (tensormap.ts): PTX ISA 9.0, chapter 9.7.13.4. */
import type { Operation } from "../load/types.ts";
import { fenceInitialisations } from "../machine/mbarriers.ts";
import type { Row } from "./row.ts";

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
  const proxy = d.choice("alias", "async", "async::generic");
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
    default:
      proxy satisfies never;
      return memoryFence;
  }
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
