// npm start: install, build what is needed, run the demonstration. Arguments go on to `tilewright demo`.

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import {
  exitCodeOf,
  install,
  progress,
  root,
  runMain,
  Stop,
  toolEnv,
  toolNode,
  turbo,
} from "./lib/workspace.mjs";

runMain(() => {
  const again = "npm start";
  install(again);
  progress("building (reuses what is already built)");
  const built = turbo(["build", "--filter=tilewright"], { quiet: true, env: { TILEWRIGHT_TYPES: "none" } });
  if (built === 130 || built === 143) return built;
  if (built !== 0) throw new Stop(`the build failed, see above; after a fix repeat: ${again}`);
  const demo = spawnSync(
    toolNode(),
    [join(root, "packages/cli/dist/bin.js"), "demo", ...process.argv.slice(2)],
    {
      cwd: root,
      env: toolEnv(),
      stdio: "inherit",
    },
  );
  return exitCodeOf(demo);
});
