/** Programs that make the calls through each launcher, and print how each one ended, a line a call. */
import { addresses, type Call } from "./calls.ts";

const statuses = ["ok", "no kernel", "bad argument"] as const;

/** C: a table of calls. */
export function cProgram(calls: readonly Call[]): string {
  const rows = calls.map(
    (c) =>
      `    {${[c.operation === "all" ? 1 : 0, c.m, c.n, c.k, c.batch, c.bias, c.workspace, c.workspaceBytes, c.stream].join(", ")}, ${c.alpha}, ${c.beta}, ${c.scale}},`,
  );
  return `#include "mixed.h"
static const struct { int64_t all, m, n, k, batch, bias, workspace, bytes, stream; double alpha, beta, scale; } calls[] = {
${rows.join("\n")}
};
int main(int argc, char **argv) {
  static const char *names[] = {${statuses.map((name) => `"${name}"`).join(", ")}};
  mixed_library lib;
  size_t i;
  int status = mixed_open(&lib, argv[argc - 1], 0);
  if (status != mixed_OK) { puts(mixed_last_error(&lib)); return 1; }
  for (i = 0; i < sizeof calls / sizeof calls[0]; i++) {
    mixed_args args;
    mixed_variable_defaults(&args, calls[i].m, calls[i].n, calls[i].k);
    args.batch = calls[i].batch;
    args.a = ${addresses.a}; args.b = ${addresses.b}; args.d = ${addresses.d};
    args.epilogue[0] = (mixed_pointer)calls[i].bias;
    args.alpha = calls[i].alpha; args.beta = calls[i].beta; args.scale[1] = calls[i].scale;
    args.workspace = (mixed_pointer)calls[i].workspace; args.workspace_bytes = (uint64_t)calls[i].bytes;
    status = (calls[i].all ? mixed_all : mixed_variable)(&lib, &args, (mixed_stream)(uintptr_t)calls[i].stream);
    if (status > 0 || status < -2) puts(mixed_last_error(&lib)); else puts(names[-status]);
  }
  mixed_close(&lib);
  return 0;
}
`;
}

/** Rust: a call a line. */
export function rustProgram(calls: readonly Call[], launcher: string): string {
  const real = (value: number) => `${value}_f64`;
  const lines = calls.map(
    (c) =>
      `    call(&mut library, ${c.operation === "all"}, [${[c.m, c.n, c.k, c.batch].join(", ")}], ${c.bias}, (${c.workspace}, ${c.workspaceBytes}), ${c.stream}, [${[c.alpha, c.beta, c.scale].map(real).join(", ")}]);`,
  );
  return `#[path = ${JSON.stringify(launcher)}]
mod mixed;
use mixed::{Error, Library};

fn call(library: &mut Library, all: bool, sizes: [i64; 4], bias: u64, workspace: (u64, u64), stream: usize, factors: [f64; 3]) {
    let [m, n, k, batch] = sizes;
    let mut args = Library::variable_defaults(m, n, k);
    args.batch = batch;
    (args.a, args.b, args.d) = (${addresses.a}, ${addresses.b}, ${addresses.d});
    args.epilogue[0] = bias;
    [args.alpha, args.beta, args.scale[1]] = factors;
    (args.workspace, args.workspace_bytes) = workspace;
    let done = unsafe { if all { library.all(&args, stream as mixed::Stream) } else { library.variable(&args, stream as mixed::Stream) } };
    match done {
        Ok(()) => println!("ok"),
        Err(Error::NoKernel(_)) => println!("no kernel"),
        Err(Error::BadArgument(_)) => println!("bad argument"),
        Err(other) => println!("{other}"),
    }
}

fn main() {
    let folder = std::env::args().nth(1).unwrap();
    let mut library = Library::open(folder, 0).unwrap();
${lines.join("\n")}
}
`;
}

/** Python: the calls as JSON on standard input. */
export const pythonProgram = `import json, sys
import mixed
library = mixed.Library()
class Tensor:
    def __init__(self, address): self.address = address
    def data_ptr(self): return self.address
class Stream:
    def __init__(self, handle): self.cuda_stream = handle
for c in json.load(sys.stdin):
    more = {"workspace": c["workspace"], "workspace_bytes": c["workspaceBytes"]} if c["workspace"] else {}
    try:
        getattr(library, c["operation"])(c["m"], c["n"], c["k"], Tensor(${addresses.a}), ${addresses.b}, ${addresses.d},
            epilogue={0: Tensor(c["bias"]), 1: float(c["scale"])}, stream=Stream(c["stream"]) if c["stream"] else None,
            alpha=c["alpha"], beta=c["beta"], batch=c["batch"], **more)
        print("ok")
    except mixed.NoKernel:
        print("no kernel")
    except mixed.LaunchError as error:
        print("bad argument" if error.status is None else error)
`;
