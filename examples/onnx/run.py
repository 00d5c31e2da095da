"""Launches a plan by the CUDA driver alone, and compares it with torch: numbers with float64, times with eager and compiled bfloat16.

    node main.ts compile bert.onnx --arch sm_90a --out bert
    python run.py bert --shape bert

Weights are those of export.py's model of the shape: the plan names which initializer lies where. Needs torch with CUDA; the launches need Python's ctypes only.
"""
import argparse
import ctypes as c
import json
import os
import tempfile

import torch

from export import encoder

INTERLEAVE = {"none": 0, "16B": 1, "32B": 2}
SWIZZLE = {"none": 0, "32B": 1, "64B": 2, "128B": 3, "128B_ATOM_32B": 4}
PROMOTION = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
TYPES = {"u8": 0, "u16": 1, "u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9}
SCALARS = {"f32": c.c_float, "f64": c.c_double, "u32": c.c_uint32, "s32": c.c_int32, "u64": c.c_uint64}
DTYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
MAX_DYNAMIC_SHARED, NON_PORTABLE_CLUSTER, CLUSTER_DIMENSION = 8, 14, 4


class Attribute(c.Structure):
    _fields_ = [("id", c.c_int), ("pad", c.c_int), ("value", c.c_uint32 * 16)]


class Config(c.Structure):
    _fields_ = [("grid", c.c_uint32 * 3), ("block", c.c_uint32 * 3), ("shared", c.c_uint32), ("stream", c.c_void_p), ("attributes", c.POINTER(Attribute)), ("count", c.c_uint32)]


driver = c.CDLL("libcuda.so.1")


def call(name, *arguments):
    code = getattr(driver, name)(*arguments)
    if code != 0:
        text = c.c_char_p()
        driver.cuGetErrorName(code, c.byref(text))
        raise RuntimeError("%s: %s" % (name, (text.value or b"?").decode()))


def tensor_map(spec, base):
    """128 bytes, as the driver encodes them; they begin at a multiple of 64."""
    memory = (c.c_uint64 * 24)()
    at = (c.addressof(memory) + 63) & ~63
    rank = len(spec["dims"])
    words = lambda kind, values: (kind * max(1, len(values)))(*values)
    call(
        "cuTensorMapEncodeTiled", c.c_void_p(at), TYPES[spec["dtype"]], rank, c.c_void_p(base + spec["address"]), words(c.c_uint64, spec["dims"]),
        words(c.c_uint64, spec["strides"]), words(c.c_uint32, spec["box"]), words(c.c_uint32, spec["elementStrides"]),
        INTERLEAVE[spec["interleave"]], SWIZZLE[spec["swizzle"]], PROMOTION[spec["l2"]], int(spec["fill"] == "nan"),
    )
    return memory, at


class Plan:
    """A model on the current GPU, in torch's memory: `inputs` and `outputs` are tensors there, `launch` queues everything on torch's stream."""

    def __init__(self, folder, weights):
        with open(os.path.join(folder, "plan.json")) as file:
            plan = json.load(file)
        self.arena = torch.zeros(plan["arena"], dtype=torch.uint8, device="cuda")
        self.inputs, self.outputs = ({name: self.place(place) for name, place in plan[kind].items()} for kind in ("inputs", "outputs"))
        for place in plan["constants"]:
            self.place(place).copy_(torch.cat([weights[name].reshape(-1) for name in place["from"]]))
        functions, modules = {}, []
        for path in plan["images"]:
            with open(os.path.join(folder, path), "rb") as file:
                modules.append(c.c_void_p())
                call("cuModuleLoadData", c.byref(modules[-1]), file.read() + b"\0")
        self.launches = []
        for each in plan["launches"]:
            if "zero" in each:
                self.launches.append(self.arena[each["zero"] : each["zero"] + each["bytes"]].zero_)
                continue
            key = each["image"], each["entry"]
            if key not in functions:
                functions[key] = c.c_void_p()
                call("cuModuleGetFunction", c.byref(functions[key]), modules[each["image"]], each["entry"].encode())
                call("cuFuncSetAttribute", functions[key], MAX_DYNAMIC_SHARED, each["dynamicSmem"])
                call("cuFuncSetAttribute", functions[key], NON_PORTABLE_CLUSTER, 1)
            self.launches.append(self.prepared(functions[key], each))

    def place(self, place):
        return self.arena[place["at"] : place["at"] + place["bytes"]].view(DTYPES[place["dtype"]]).reshape(place["shape"])

    def prepared(self, function, each):
        """One launch, its arguments laid out once."""
        base, kept, pointers = self.arena.data_ptr(), [], []
        for argument in each["args"]:
            if argument["kind"] == "tensorMap":
                memory, at = tensor_map(argument["spec"], base)
            else:
                kind, value = (c.c_uint64, base + argument["address"]) if argument["kind"] == "pointer" else (SCALARS[argument["dtype"]], argument["value"])
                memory = kind(value)
                at = c.addressof(memory)
            kept.append(memory)
            pointers.append(at)
        cluster = Attribute(CLUSTER_DIMENSION, 0, (c.c_uint32 * 16)(*each["cluster"]))
        config = Config((c.c_uint32 * 3)(*each["grid"]), (c.c_uint32 * 3)(*each["block"]), each["dynamicSmem"], None, c.pointer(cluster), int(each["cluster"] != [1, 1, 1]))
        table = (c.c_void_p * len(pointers))(*pointers)

        def launch(kept=kept):
            config.stream = torch.cuda.current_stream().cuda_stream
            call("cuLaunchKernelEx", c.byref(config), function, table, None)

        return launch

    def launch(self):
        for launch in self.launches:
            launch()


def graph_of(work):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    return graph


def milliseconds(work, count=50):
    """Median, between events."""
    for _ in range(5):
        work()
    times = []
    for _ in range(count):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[count // 2]


def onnxruntime_of(model, inputs):
    """A call of onnxruntime on the GPU in float16, inputs and outputs there; a sentence where that is not to be had."""
    try:
        import onnxruntime
    except ImportError:
        return "not installed"
    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return "%s without CUDA" % onnxruntime.__version__
    half = [each.half() for each in inputs]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "half.onnx")
        torch.onnx.export(model.half(), tuple(half), path, input_names=["hidden", "mask"], output_names=["encoded"], opset_version=20, dynamo=True)
        session = onnxruntime.InferenceSession(path, providers=["CUDAExecutionProvider"])
    binding = session.io_binding()
    for name, each in zip(("hidden", "mask"), half):
        binding.bind_input(name, "cuda", 0, "float16", list(each.shape), each.data_ptr())
    binding.bind_output("encoded", "cuda")
    return lambda: session.run_with_iobinding(binding)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--shape", default="bert")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--peers", default="eager,graph,compiled,onnxruntime", help="what is timed beside it, with commas between")
    arguments = parser.parse_args()
    peers = arguments.peers.split(",")
    exact = encoder(arguments.shape, arguments.layers)
    with torch.no_grad():
        torch.cuda.init()
        plan = Plan(arguments.folder, exact.state_dict())
        hidden, mask = plan.inputs["hidden"], plan.inputs["mask"]
        torch.manual_seed(2)
        hidden.normal_()
        mask.zero_()[..., mask.shape[-1] * 3 // 4 :] = -1e4
        model = encoder(arguments.shape, arguments.layers).cuda().bfloat16()
        taken = hidden.clone(), mask.bfloat16()
        eager = model(*taken)
        plan.launch()
        torch.cuda.synchronize()
        want = exact.cuda().double()(hidden.double(), mask.double())
        error = lambda made: (made.double() - want).abs().max().item()
        ours, theirs = error(plan.outputs["encoded"]), error(eager)
        print("%s, %s %s: %d launches, %.1f MB" % (torch.cuda.get_device_name(), arguments.folder, list(hidden.shape), len(plan.launches), plan.arena.numel() / 1e6))
        print("  farthest from float64: plan %.3g, torch eager in bfloat16 %.3g" % (ours, theirs))
        rows = {"plan, one by one": plan.launch, "plan, CUDA graph": graph_of(plan.launch).replay}
        if "eager" in peers:
            rows["torch eager"] = lambda: model(*taken)
        if "graph" in peers:
            rows["torch eager, CUDA graph"] = graph_of(lambda: model(*taken)).replay
        if "compiled" in peers:
            compiled = torch.compile(model, mode="reduce-overhead")
            rows["torch.compile, CUDA graph"] = lambda: compiled(*taken)
        for name, work in rows.items():
            print("  %-26s %.3f ms" % (name, milliseconds(work)), flush=True)
        if "onnxruntime" in peers:
            session = onnxruntime_of(encoder(arguments.shape, arguments.layers).cuda(), taken)
            print("  %-26s %s" % ("onnxruntime, float16", session if isinstance(session, str) else "%.3f ms" % milliseconds(session)))
    if not ours <= 2 * theirs + 1e-2:
        raise SystemExit("the numbers are wrong")


if __name__ == "__main__":
    main()
