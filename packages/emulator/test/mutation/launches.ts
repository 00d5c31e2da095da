/** Faults outside the text: tensor maps, shared memory and arguments that the host gets wrong. */
import type { Launch, MapRecipe } from "./launch.ts";
import { early, type FaultClass, type Finder, races, uneven } from "./mutator.ts";

export interface LaunchMutator {
  readonly fault: string;
  readonly class: FaultClass;
  /** Every faulty launch, each with what was changed. */
  readonly edits: (launch: Launch) => readonly { readonly what: string; readonly launch: Launch }[];
  readonly finds: readonly Finder[];
}

/** One launch for each map that `change` applies to. */
const perMap =
  (change: (map: MapRecipe) => MapRecipe | null): LaunchMutator["edits"] =>
  (launch) =>
    launch.params.flatMap((p, k) => {
      const map = typeof p === "object" && "map" in p ? change(p.map) : null;
      return map === null
        ? []
        : [
            {
              what: `map of ${map.of}`,
              launch: { ...launch, params: launch.params.map((q, j) => (j === k ? { map } : q)) },
            },
          ];
    });

const one = (launch: Launch | null): readonly { readonly what: string; readonly launch: Launch }[] =>
  launch === null ? [] : [{ what: "launch", launch }];

export const launchMutators: readonly LaunchMutator[] = [
  {
    fault: "no swizzle in the map",
    class: "tensor map and coordinates",
    edits: perMap((map) => (map.swizzle === "none" ? null : { ...map, swizzle: "none" })),
    finds: ["numbers", "H051"],
  },
  {
    fault: "half as many rows in the box",
    class: "tensor map and coordinates",
    edits: perMap((map) => ({ ...map, box: map.box.map((x, k) => (k === map.box.length - 1 ? x / 2 : x)) })),
    finds: ["H030", "numbers"],
  },
  {
    fault: "one row less in the map",
    class: "tensor map and coordinates",
    edits: perMap((map) => ({
      ...map,
      dims: map.dims.map((x, k) => (k === map.dims.length - 1 ? x - 1 : x)),
    })),
    finds: ["numbers"],
  },
  {
    fault: "rows 16 bytes further apart in the map",
    class: "tensor map and coordinates",
    edits: perMap((map) => ({
      ...map,
      strides: map.strides.map((x, k) => (k === map.strides.length - 1 ? x + 16 : x)),
    })),
    finds: ["numbers", "H001"],
  },
  {
    fault: "the map of the other operand",
    class: "tensor map and coordinates",
    edits: perMap((map) =>
      map.of === "a" ? { ...map, of: "b" } : map.of === "b" ? { ...map, of: "a" } : null,
    ),
    finds: ["numbers", "H001"],
  },
  {
    fault: "64 KiB less shared memory",
    class: "address",
    edits: (launch) =>
      one(launch.dynamicSmem < 65536 ? null : { ...launch, dynamicSmem: launch.dynamicSmem - 65536 }),
    finds: ["H001", "H003", "H062", "H073"],
  },
  {
    fault: "K one block short",
    class: "wrong count",
    edits: (launch) => {
      const [, , k] = launch.shape;
      const at = launch.params.lastIndexOf(k);
      return one(
        at < 0
          ? null
          : { ...launch, params: launch.params.map((p, j) => (j === at ? k - (k > 64 ? 64 : 8) : p)) },
      );
    },
    finds: [...uneven, ...early, ...races, "numbers"],
  },
];
