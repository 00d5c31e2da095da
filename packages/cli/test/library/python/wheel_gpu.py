"""The wheel `linear` on a GPU: right calls, wrong calls, streams, graphs, torch.compile, gradients, arrays of others, and host times.

    tilewright compile --library out --kernels packages/cli/test/library/python/linear.json --wheel
    python packages/cli/test/library/python/wheel_gpu.py out [RESULT.json]

Needs torch with CUDA; CuPy and JAX where they are. A line a part; exit code 1 if one failed. Times are of random normal inputs, medians of rounds in which
all that is compared takes turns.
"""
import ctypes
import glob
import json
import os
import subprocess
import sys
import sysconfig
import threading
import time
import traceback

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
import torch
import torch.nn.functional as F

folder = sys.argv[1]
site = os.path.join(folder, "site")
wheel = glob.glob(os.path.join(folder, "linear-*.whl"))[0]
pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--upgrade", "--target", site]
subprocess.run(pip + [wheel], check=True)
sys.path.insert(0, site)
import linear
from linear import LaunchError, NoKernel, linear_gelu

SEED = 24
torch.manual_seed(SEED)
M, N, K = 128, 256, 192
f16 = {"device": "cuda", "dtype": torch.float16}
parts = {}
result = {
    "device": torch.cuda.get_device_name(),
    "torch": torch.__version__,
    "python": sys.version.split()[0],
    "wheel": {"bytes": os.path.getsize(wheel), "name": os.path.basename(wheel)},
    "seed": SEED,
    "parts": parts,
}


def part(call):
    """A part and whether it holds."""
    name = call.__name__.replace("_", " ")
    began = time.perf_counter()
    try:
        said = call()
        parts[name] = {"ok": True, **(said or {})}
    except Exception as error:
        parts[name] = {"ok": False, "error": "%s: %s" % (type(error).__name__, error)}
        traceback.print_exc()
    print("%-22s %-6s %4.1f s  %s" % (name, "ok" if parts[name]["ok"] else "FAILED", time.perf_counter() - began, json.dumps(parts[name])[:600]), flush=True)
    return call


def rand(*shape, scale=1.0, dtype=torch.float16):
    return torch.randn(*shape, device="cuda", dtype=torch.float32).mul_(scale).to(dtype)


def inputs():
    return rand(M, K), rand(N, K, scale=K**-0.5), rand(N)


def exact(x, weight, bias):
    return F.gelu(x.double() @ weight.double().T + bias.double())


def near(made, want, bound=2**-9):
    """The largest error against float64, which half a unit of f16 at the largest value bounds, and the sums' own on top."""
    error = (made.double() - want).abs().max().item()
    limit = bound * max(1.0, want.abs().max().item())
    assert error <= limit, "error %g, bound %g" % (error, limit)
    return error


# Host times come first: JAX and the workers of torch.compile slow every call of the process that starts them.

CALLS, ROUNDS = 1000, 15


def mean_us(call, busy=False):
    """Microseconds of the CPU a call, of CALLS queued ones. `busy`: behind a kernel that keeps the GPU from starting any of them meanwhile."""
    torch.cuda.synchronize()
    if busy:
        torch.cuda._sleep(50_000_000)
    began = time.perf_counter()
    call()
    took = time.perf_counter() - began
    torch.cuda.synchronize()
    return 1e6 * took / CALLS


def gpu_us(call):
    """Microseconds of the GPU a call, of CALLS that all wait when the first of them starts."""
    first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    torch.cuda._sleep(80_000_000)
    first.record()
    call()
    last.record()
    torch.cuda.synchronize()
    return 1e3 * first.elapsed_time(last) / CALLS


LAUNCHES = r"""
#include <Python.h>
#include <stdint.h>
#include <time.h>
typedef struct { uint32_t grid[3], block[3], smem; void *stream, *attributes; uint32_t count; } Config;
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec; }
double extended(int (*launch)(const Config *, void *, void **, void **), void *f, void **params, void *stream, uint32_t smem, int calls) {
  Config c = {{1, 1, 1}, {128, 1, 1}, smem, stream, 0, 0};
  double began = now();
  for (int i = 0; i < calls; i++) if (launch(&c, f, params, 0)) return -1;
  return (now() - began) / calls;
}
double plain(int (*launch)(void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, void *, void **, void **), void *f, void **params,
             void *stream, uint32_t smem, int calls) {
  double began = now();
  for (int i = 0; i < calls; i++) if (launch(f, 1, 1, 1, 128, 1, 1, smem, stream, params, 0)) return -1;
  return (now() - began) / calls;
}
double in_turn(int (*launch)(const Config *, void *, void **, void **), void *f, void **params, void *stream, PyObject *empty, PyObject *args, int calls) {
  Config c = {{1, 1, 1}, {128, 1, 1}, 0, stream, 0, 0};
  double began = now();
  for (int i = 0; i < calls; i++) {
    PyObject *made = PyObject_Call(empty, args, 0);
    if (!made || launch(&c, f, params, 0)) return -1;
    Py_DECREF(made);
  }
  return (now() - began) / calls;
}
"""
EMPTY = b""".version 7.0
.target sm_80
.address_size 64
.visible .entry three(.param .align 64 .b8 a[128], .param .align 64 .b8 b[128], .param .align 64 .b8 c[128])
{
  ret;
}
"""


def driver_alone():
    """A launch of an empty kernel with three tensor maps as parameters, from C: cuLaunchKernelEx and cuLaunchKernel, and in turn with an output of torch's;
    microseconds."""
    source, made = os.path.join(folder, "launches.c"), os.path.abspath(os.path.join(folder, "launches.so"))
    with open(source, "w") as file:
        file.write(LAUNCHES)
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-I", sysconfig.get_paths()["include"], source, "-o", made], check=True)
    own, cuda = ctypes.PyDLL(made), ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuModuleLoadData(ctypes.byref(module), EMPTY) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"three") == 0
    maps = (ctypes.c_ubyte * 512)()
    params = (ctypes.c_void_p * 3)(*(ctypes.addressof(maps) + 128 * i for i in range(3)))
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def timed(name, launch, *more):
        call = getattr(own, name)
        call.restype = ctypes.c_double
        address = ctypes.cast(launch, ctypes.c_void_p)

        def run():
            torch.cuda.synchronize()
            took = call(address, function, params, stream, *more, CALLS)
            torch.cuda.synchronize()
            return took

        return run

    output = ctypes.py_object(linear._torch._empty), ctypes.py_object(((M, N), (N, 1), torch.float16))
    return {
        "cuLaunchKernelEx alone": timed("extended", cuda.cuLaunchKernelEx, 0),
        "cuLaunchKernel alone": timed("plain", cuda.cuLaunchKernel, 0),
        "output and launch": timed("in_turn", cuda.cuLaunchKernelEx, *output),
    }


@part
def host_times():
    with torch.inference_mode():
        x, weight, bias = inputs()
        pool = torch.randn(CALLS, M, K, **f16)
        views = [pool[i] for i in range(CALLS)]
        made = torch.empty(M, N, **f16)
        kept = [None] * CALLS

        def loop(call):
            def run():
                for _ in range(CALLS):
                    call(x, weight, bias)

            return run

        def repeated(call, busy=False):
            return lambda: mean_us(loop(call), busy)

        def fresh(call):
            def run():
                for i, view in enumerate(views):
                    kept[i] = call(view, weight, bias)

            return lambda: mean_us(run)

        def outputs():
            empty, shape, strides = linear._torch._empty, (M, N), (N, 1)
            for _ in range(CALLS):
                empty(shape, strides, torch.float16)

        def elsewhere(call):
            run, stream = repeated(call), torch.cuda.Stream()

            def on():
                with torch.cuda.stream(stream):
                    return run()

            return on

        works = {
            "linear_gelu, known": repeated(linear_gelu),
            "linear_gelu, new": fresh(linear_gelu),
            "linear_gelu, GPU busy": repeated(linear_gelu, busy=True),
            "linear_gelu, stream": elsewhere(linear_gelu),
            "F.linear, stream": elsewhere(F.linear),
            "torch.mm": repeated(lambda x, weight, bias: torch.mm(x, weight.t())),
            "torch.mm(out=)": repeated(lambda x, weight, bias: torch.mm(x, weight.t(), out=made)),
            "F.linear, known": repeated(F.linear),
            "F.linear, new": fresh(F.linear),
            "_addmm_activation": repeated(lambda x, weight, bias: torch._addmm_activation(bias, x, weight.t(), use_gelu=True)),
            "F.linear and F.gelu": repeated(lambda x, weight, bias: F.gelu(F.linear(x, weight, bias))),
            "output alone": lambda: mean_us(outputs),
            **driver_alone(),
        }
        times = {name: [] for name in works}
        for turn in range(ROUNDS + 2):
            for name, work in works.items():
                if "new" in name:
                    kept[:] = [None] * CALLS
                took = work()
                if turn >= 2:
                    times[name].append(took)
        queued_us = {
            name: round(sorted(gpu_us(loop(call)) for _ in range(5))[2], 3) for name, call in (("linear_gelu", linear_gelu), ("F.linear", F.linear))
        }
    rows = {name: {"median_us": round(sorted(each)[len(each) // 2], 3), "least_us": round(min(each), 3)} for name, each in times.items()}
    return {"gpu_us_a_call": queued_us, "shim": linear._shim.state(), "calls": CALLS, "rounds": ROUNDS, "problem": [M, N, K], "times": rows}


# Everything else.


@part
def numbers():
    x, weight, bias = inputs()
    errors = {"linear_gelu": near(linear_gelu(x, weight, bias), exact(x, weight, bias))}
    deep = rand(2, 64, K)
    errors["leading dimensions"] = near(linear_gelu(deep, weight, bias), exact(deep, weight, bias))
    errors["transposed view"] = near(linear_gelu(x, weight.t(), bias), exact(x, weight, bias))
    a, b = rand(64, 64), rand(64, 64, scale=0.125)
    errors["scaled"] = near(linear.scaled(a, b, alpha=2.0), 2 * (a.double() @ b.double()))
    errors["scaled by 1"] = near(linear.scaled(a, b), a.double() @ b.double())
    made, sums = linear.two_results(x, weight)
    want = x.double() @ weight.double().T
    errors["two_results"] = max(near(made, want.relu()), near(sums, want, 2**-14))
    wg, wu = rand(N, K, scale=K**-0.5), rand(N, K, scale=K**-0.5)
    errors["gated_two"] = near(linear.gated_two(x, wg, wu), F.silu(x.double() @ wg.double().T) * (x.double() @ wu.double().T), 2**-8)
    p, q = rand(64, 2048), rand(2048, 64, scale=2048**-0.5)
    errors["split"] = near(linear.split(p, q), p.double() @ q.double())
    return {"errors": errors}


def heads(count, queries=128):
    return rand(2, queries, count, 64).transpose(1, 2)


def attended(q, k, v):
    return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True, enable_gqa=True)


@part
def attention():
    q, k, v = heads(4), heads(2), heads(2)
    errors = {"flash": near(linear.flash(q, k, v), attended(q, k, v), 2**-8)}
    q, k, v = rand(1, 2, 32, 32), rand(1, 2, 48, 32), rand(1, 2, 48, 32)
    made, lse = linear.flash_lse(q, k, v)
    scores = q.double() @ k.double().transpose(2, 3) * 32**-0.5
    errors["flash_lse"] = max(near(made, scores.softmax(-1) @ v.double(), 2**-8), near(lse, scores.logsumexp(-1), 2**-12))
    return {"errors": errors}


@part
def wrong_calls():
    x, weight, bias = inputs()
    wide = rand(M, 2 * K)
    cases = {
        "an fp32 tensor": (lambda: linear_gelu(x.float(), weight, bias), LaunchError, "x is f32, and the kernels take f16"),
        "a CPU tensor": (lambda: linear_gelu(x.cpu(), weight, bias), LaunchError, "x is on cpu, and the kernels run on a GPU"),
        "a weight on the CPU": (lambda: linear_gelu(x, weight.cpu(), bias), LaunchError, "weight is on cpu"),
        "a strided view": (lambda: linear_gelu(wide[:, ::2], weight, bias), LaunchError, "the kernels take k contiguous (stride 1, not 2)"),
        "padded rows": (lambda: linear_gelu(wide[:, :K], weight, bias), NoKernel, "wants lda == 192, and lda is 384"),
        "a wrong shape": (lambda: linear_gelu(x, weight[:, :64].contiguous(), bias), LaunchError, "whose k is 64; that of x is 192"),
        "a weight as [k, n]": (lambda: linear_gelu(x, weight.t().contiguous(), bias), LaunchError, "whose k is 256; that of x is 192"),
        "a weight with other strides": (lambda: linear_gelu(x, weight.t().contiguous().t(), bias), LaunchError, "weight has strides [1, 256]"),
        "a wrong bias": (lambda: linear_gelu(x, weight, bias[:M]), LaunchError, "bias has shape [128], and the kernels take [n] = [256]"),
        "a size without a kernel": (lambda: linear_gelu(x[:77], weight, bias), NoKernel, "wants m == 128, and m is 77"),
        "alpha=2.0": (lambda: linear_gelu(x, weight, bias, alpha=2.0), LaunchError, 'compile them with "alpha": "runtime"'),
        "an address between": (lambda: linear_gelu(rand(M * K + 1)[1:].view(M, K), weight, bias), LaunchError, "x is not aligned to 16 bytes"),
        "no tensor": (lambda: linear_gelu(x, 3, bias), TypeError, "weight is of type int, and no tensor"),
        "vmap": (lambda: torch.func.vmap(linear_gelu, in_dims=(0, None, None))(rand(2, M, K), weight, bias), LaunchError, "vmap is refused"),
    }
    if torch.cuda.device_count() > 1:
        cases["a tensor of another GPU"] = (lambda: linear_gelu(x, weight.to("cuda:1"), bias), LaunchError, "weight is on GPU 1, and x on GPU 0")
    missed = {}
    for name, (call, kind, text) in cases.items():
        try:
            call()
            missed[name] = "no error"
        except Exception as error:
            if not isinstance(error, kind) or text not in str(error):
                missed[name] = "%s: %s" % (type(error).__name__, error)
    near(linear_gelu(x, weight, bias), exact(x, weight, bias))
    assert not missed, missed
    return {"calls": len(cases)}


@part
def streams():
    x, weight, bias = inputs()
    late, side = torch.zeros_like(x), torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(3):  # the second and third are known calls
        late.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(20_000_000)
            late.copy_(x)
            made = linear_gelu(late, weight, bias)
        side.synchronize()
        near(made, exact(x, weight, bias))


@part
def graphs():
    x, weight, bias = inputs()
    p, q = rand(64, 2048), rand(2048, 64, scale=2048**-0.5)
    h = heads(4), heads(2), heads(2)

    def calls():
        return linear_gelu(x, weight, bias), linear.split(p, q), linear.flash(*h)

    calls()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = calls()
    for _ in range(3):
        for each in (x, p, h[0]):
            each.copy_(torch.randn_like(each))
        for each in made:
            each.fill_(float("nan"))
        graph.replay()
        assert all(torch.equal(one, other) for one, other in zip(made, calls()))


@part
def workspace_of_torch():
    p, q = rand(64, 2048), rand(2048, 64, scale=2048**-0.5)
    linear.split(p, q)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    linear.split(p, q)
    peak = torch.cuda.max_memory_allocated() - before
    assert peak >= 64 * 64 * 4, peak
    return {"peak_bytes": peak}


@part
def opcheck():
    torch.library.opcheck(torch.ops.linear.linear_gelu.default, inputs())
    torch.library.opcheck(torch.ops.linear.flash.default, (heads(4), heads(2), heads(2)))


@part
def torch_compile():
    x, weight, bias = inputs()

    @torch.compile(fullgraph=True)
    def compiled(x, weight, bias):
        return linear_gelu(x.relu(), weight, bias) * 2

    near(compiled(x, weight, bias), 2 * exact(x.relu(), weight, bias))


@part
def gradients():
    tensors = [each.requires_grad_() for each in inputs()]
    doubles = [each.detach().double().requires_grad_() for each in tensors]
    grad = rand(M, N)
    linear_gelu(*tensors).backward(grad)
    exact(*doubles).backward(grad.double())
    # The gradient of gelu is read off a product that was rounded to f16 once.
    return {"errors": [near(each.grad, double.grad, 2**-7) for each, double in zip(tensors, doubles)]}


@part
def autocast():
    x, weight, bias = inputs()
    with torch.autocast("cuda", dtype=torch.float16):
        near(linear_gelu(x.float(), weight.float(), bias), exact(x, weight, bias))


@part
def fallback():
    x, weight, bias = inputs()
    near(linear_gelu(x[:77], weight, bias, fallback=True), exact(x[:77], weight, bias))


@part
def cupy_arrays():
    import cupy

    tensors = inputs()
    made = linear_gelu(*map(cupy.from_dlpack, tensors))
    assert isinstance(made, cupy.ndarray), type(made)
    near(torch.from_dlpack(made), exact(*tensors))


@part
def jax_arrays():
    import jax

    tensors = inputs()
    arrays = [jax.numpy.from_dlpack(each) for each in tensors]
    assert any(each.platform == "gpu" for each in arrays[0].devices()), arrays[0].devices()
    made = linear_gelu(*arrays)
    assert isinstance(made, jax.Array), type(made)
    near(torch.from_dlpack(made), exact(*tensors))
    doubled = [jax.numpy.add(each, each) for each in arrays]  # results that JAX has queued on a stream of its own
    near(torch.from_dlpack(linear_gelu(*doubled)), exact(*(each + each for each in tensors)))


@part
def threads():
    wrong = []

    def work():
        try:
            for _ in range(50):
                tensors = inputs()
                near(linear_gelu(*tensors), exact(*tensors))
        except Exception as error:
            wrong.append(str(error))

    each = [threading.Thread(target=work) for _ in range(4)]
    for thread in each:
        thread.start()
    for thread in each:
        thread.join()
    assert not wrong, wrong


if len(sys.argv) > 2:
    with open(sys.argv[2], "w") as file:
        json.dump(result, file, indent=1)
failed = [name for name, each in parts.items() if not each["ok"]]
print("%d of %d parts hold%s" % (len(parts) - len(failed), len(parts), "; not: " + ", ".join(failed) if failed else ""))
for name, each in parts.get("host times", {}).get("times", {}).items():
    print("  %-24s %6.2f us (%.2f)" % (name, each["median_us"], each["least_us"]))
sys.exit(bool(failed))
