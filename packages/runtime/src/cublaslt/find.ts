/** Where libcublasLt may be: a flag, the environment, the loader's path, the toolkit, a Python environment's nvidia wheels. */
import { readdirSync, realpathSync } from "node:fs";
import { delimiter, dirname, join } from "node:path";
import { knownMajors } from "./enums.ts";

export interface FindOptions {
  /** What the user named; then nothing else is tried. */
  readonly library?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform?: string;
  /** Entries of a folder; empty where it is none. For tests. */
  readonly list?: (folder: string) => readonly string[];
  /** Where a link leads; the path itself where it leads nowhere. For tests. */
  readonly resolve?: (path: string) => string;
}

export const cublasVariable = "TILEWRIGHT_CUBLASLT";

/** Newest first. */
const majors = [...knownMajors].reverse();
const versioned = majors.map((major) => `libcublasLt.so.${major}`);

/** Places in a `site-packages` folder: wheels of CUDA 13 share one folder, those of 11 and 12 have one for each library. */
const wheelFolders = ["nvidia/cu13/lib", "nvidia/cublas/lib"];

const listFolder = (folder: string): readonly string[] => {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
};
const resolveLink = (path: string): string => {
  try {
    return realpathSync(path);
  } catch {
    return path;
  }
};

/** What to try, best first; each either a name for the loader or a path that exists. */
export function cublasCandidates(options: FindOptions): readonly string[] {
  const { env, library, platform = process.platform } = options;
  if (library !== undefined) return [library];
  const named = env[cublasVariable];
  if (named !== undefined && named !== "") return [named];
  if (platform === "win32") return majors.map((major) => `cublasLt64_${major}.dll`);
  if (platform !== "linux") return [];
  const list = options.list ?? listFolder;
  const existing = (folder: string): readonly string[] => {
    const entries = list(folder);
    return versioned.filter((name) => entries.includes(name)).map((name) => join(folder, name));
  };
  const found = [
    ...sitePackages(env, list, options.resolve ?? resolveLink).flatMap((site) =>
      wheelFolders.flatMap((folder) => existing(join(site, folder))),
    ),
    ...toolkits(env).flatMap(existing),
  ];
  // The loader's own path first: LD_LIBRARY_PATH is as much of a wish as a variable is.
  return [...new Set([...versioned, ...found])];
}

/** Library folders of CUDA toolkits. */
function toolkits(env: FindOptions["env"]): readonly string[] {
  const roots = [env.CUDA_HOME, env.CUDA_PATH, "/usr/local/cuda"].filter(
    (root): root is string => root !== undefined && root !== "",
  );
  return roots.flatMap((root) => [join(root, "lib64"), join(root, "targets/x86_64-linux/lib")]);
}

/**
 * `site-packages` of the Python environments that this process can see: the active ones, those of each `python3` on PATH, the user's and
 * the system's. The interpreter is not run: starting it takes longer than everything else here.
 */
function sitePackages(
  env: FindOptions["env"],
  list: (folder: string) => readonly string[],
  resolve: (path: string) => string,
): readonly string[] {
  const prefixes: string[] = [];
  const add = (prefix: string | undefined): void => {
    if (prefix !== undefined && prefix !== "" && !prefixes.includes(prefix)) prefixes.push(prefix);
  };
  add(env.VIRTUAL_ENV);
  add(env.CONDA_PREFIX);
  for (const folder of (env.PATH ?? "").split(delimiter)) {
    if (folder === "" || !list(folder).includes("python3")) continue;
    add(dirname(folder));
    // A virtual environment's python3 is a link to the interpreter that made it, whose packages it may see, too.
    add(dirname(dirname(resolve(join(folder, "python3")))));
  }
  if (env.HOME !== undefined) add(join(env.HOME, ".local"));
  add("/usr/local");
  add("/usr");
  add("/opt/conda");
  return prefixes.flatMap((prefix) => {
    const lib = join(prefix, "lib");
    const versions = list(lib).filter((name) => /^python3(\.\d+)?$/.test(name));
    return versions.flatMap((name) => [join(lib, name, "site-packages"), join(lib, name, "dist-packages")]);
  });
}
