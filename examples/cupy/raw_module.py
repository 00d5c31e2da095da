"""One compiled kernel through a CuPy RawModule: PTX and manifest are all that it takes, no launcher of ours.

    tilewright compile --arch sm_80 -m 512 -n 384 -k 256 --dtype f32 --schedule split=1 -o out
    python examples/cupy/raw_module.py out/*.gemm.json

Needs cupy. It launches kernels with pointer parameters on grids that the problem fixes; for workspaces, tensor maps and
dispatch over sizes take the Python launcher of `tilewright compile --library`.
"""
import json
import os
import sys

OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x // y,
    "ceilDiv": lambda x, y: -(-x // y),
    "mod": lambda x, y: x % y,
    "min": min,
    "max": max,
}


def evaluate(expr, env):
    """A launch expression: a number, a name, or [operation, left, right]."""
    if isinstance(expr, str):
        return env[expr]
    if isinstance(expr, list):
        return OPERATIONS[expr[0]](evaluate(expr[1], env), evaluate(expr[2], env))
    return expr


def launches(manifest, num_sms):
    """Entry, grid, block, bytes of shared memory and parameter names of each kernel."""
    problem = manifest["request"]
    env = {name: problem[name] for name in "mnk"}
    env.update(numSms=num_sms, batch=1, **{"ld" + name: problem[name]["ld"] for name in "abd"})
    for kernel in manifest["kernels"]:
        launch = kernel["launch"]
        grid = tuple(evaluate(expr, env) for expr in launch["grid"])
        params = sorted(kernel["params"], key=lambda param: param["offset"])
        if any(param["kind"] != "pointer" or param["name"] == "workspace" for param in params):
            sys.exit("this kernel takes more than pointers: use the Python launcher")
        yield kernel["entry"], grid, tuple(launch["block"]), launch["dynamicSmem"], [param["name"] for param in params]


def main(path):
    import cupy

    with open(path, encoding="utf-8") as file:
        manifest = json.load(file)
    problem = manifest["request"]
    m, n, k = (problem[name] for name in "mnk")
    image = next(each for each in manifest["images"] if each["format"] == "ptx")
    module = cupy.RawModule(path=os.path.join(os.path.dirname(path), image["path"]))
    arrays = {
        "a": cupy.random.standard_normal((m, k), dtype=cupy.float32),
        "b": cupy.random.standard_normal((k, n), dtype=cupy.float32),
        "d": cupy.empty((m, n), dtype=cupy.float32),
    }
    num_sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    for entry, grid, block, smem, names in launches(manifest, num_sms):
        kernel = module.get_function(entry)
        if smem > 48 * 1024:
            kernel.max_dynamic_shared_size_bytes = smem
        kernel(grid, block, tuple(arrays[name] for name in names), shared_mem=smem)
    a, b = arrays["a"].astype(cupy.float64), arrays["b"].astype(cupy.float64)
    bound = manifest["numerics"]["relativeBound"] * (cupy.abs(a) @ cupy.abs(b))
    ratio = float((cupy.abs(arrays["d"] - a @ b) / bound).max())
    print(f"{m} x {n} x {k} on {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}: error {ratio:.3f} of the bound")
    if ratio > 1:
        sys.exit("the numbers are wrong")


if __name__ == "__main__":
    main(sys.argv[1])
