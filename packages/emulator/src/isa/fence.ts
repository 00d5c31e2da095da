/** Fences of memory and between proxies, but for those of tensor maps (tensormap.ts): PTX ISA 9.0, chapter 9.7.13.4. */

import type { Operation } from "../load/types.ts";
import { fenceInitialisations } from "../machine/mbarriers.ts";
import { onWarp, type Row, type Table } from "./row.ts";
import { tensormapFence } from "./tensormap.ts";

/** `wide`: of a scope that reaches other clusters. */
const memoryFence = (wide: boolean): Operation =>
  onWarp(({ warp }) => {
    const { race } = warp.block;
    race?.clocks.fence(warp.agent, wide ? race.cluster : null);
  });

/** What is known so far becomes visible to the async proxy; initialised mbarriers too. */
const asyncProxyFence = (spaces: { readonly shared: boolean; readonly global: boolean }): Operation =>
  onWarp(({ warp }) => {
    warp.block.race?.clocks.proxyFence(warp.agent, spaces);
    if (spaces.shared) fenceInitialisations(warp);
  });

const scopes = ["cta", "cluster", "gpu", "sys"] as const;

const proxyFence: Row = (d) => {
  const proxy = d.choice("alias", "async", "async::generic", "tensormap::generic");
  switch (proxy) {
    case "alias":
      // Several virtual addresses of one location, which there are none of here.
      return { kind: "lane", emit: () => "" };
    case "async": {
      const space = d.option("global", "shared::cta", "shared::cluster");
      return asyncProxyFence({ shared: space !== "global", global: space === null || space === "global" });
    }
    case "async::generic":
      d.choice("acquire", "release");
      d.choice("sync_restrict::shared::cluster", "sync_restrict::shared::cta");
      d.choice("cluster");
      return asyncProxyFence({ shared: true, global: false });
    case "tensormap::generic":
      return tensormapFence(d);
  }
};

const fence: Row = (d) => {
  d.option("sc", "acq_rel", "acquire", "release");
  d.option("sync_restrict::shared::cluster", "sync_restrict::shared::cta");
  return memoryFence(["gpu", "sys"].includes(d.choice(...scopes)));
};

export const fenceTable: Table = {
  membar: (d) => memoryFence(d.choice("cta", "gl", "sys") !== "cta"),
  fence,
  "fence.mbarrier_init": () => onWarp(({ warp }) => fenceInitialisations(warp)),
  "fence.proxy": proxyFence,
};
