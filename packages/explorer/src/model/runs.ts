/** The stored measurements that the page shows, as the files of docs/perf/runs are. */
import { parseRun } from "./measured.ts";

const texts = import.meta.glob<string>(
  [
    "../../../../docs/perf/runs/*/defaults.csv",
    "../../../../docs/perf/runs/*/ladder{,-*}.csv",
    "!**/ladder-emulator.csv",
  ],
  { query: "?raw", import: "default", eager: true },
);

export const runs = Object.values(texts).map(parseRun);
