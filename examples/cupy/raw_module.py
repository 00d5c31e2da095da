"""One compiled kernel through a CuPy RawModule: PTX and manifest are all that it takes, no launcher of ours.

    tilewright compile --arch sm_80 -m 512 -n 384 -k 256 --dtype f32 --schedule split=1 -o out
    python examples/cupy/raw_module.py out/*.gemm.json

Needs cupy. It launches kernels with pointer parameters on grids that the problem fixes; for workspaces, tensor maps and
dispatch over sizes take the Python launcher of `tilewright compile --library`.
"""
import json
import os
import sys


def launches(manifest):
    """Entry, grid, block, bytes of shared memory and parameter names of each kernel."""
    for kernel in manifest["kernels"]:
        launch = kernel["launch"]
        params = sorted(kernel["params"], key=lambda param: param["offset"])
        fixed = all(isinstance(extent, int) for extent in launch["grid"])
        if not fixed or any(param["kind"] != "pointer" or param["name"] == "workspace" for param in params):
            sys.exit("this kernel takes more than pointers and a fixed grid: use the Python launcher")
        yield kernel["entry"], tuple(launch["grid"]), tuple(launch["block"]), launch["dynamicSmem"], [param["name"] for param in params]


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
    for entry, grid, block, smem, names in launches(manifest):
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
