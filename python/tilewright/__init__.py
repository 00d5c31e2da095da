"""PTX kernels judged on the CPU by Tilewright's command line, which runs as a process of its own."""
import json
import math
import os
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional, Sequence, Union

__all__ = ["Error", "Finding", "Report", "command", "emulate", "entries", "explain", "triton_launch"]


class Error(RuntimeError):
    """The kernel, its launch or a flag is refused; `diagnostics` has code, place, message and hint of each reason."""

    def __init__(self, diagnostics: List[Dict[str, Any]]):
        super().__init__("\n".join(f"{d['code']} at {d['at']}: {d['message']}" for d in diagnostics))
        self.diagnostics = diagnostics


@dataclass(frozen=True)
class Finding:
    """What a rule has found at an instruction; `source` is `file:line` of what was compiled, where the text names it."""

    rule: str
    severity: str
    message: str
    instruction: str
    line: Optional[int]
    source: Optional[str]
    count: int
    suppressed: Optional[str]


@dataclass(frozen=True)
class Report:
    """`ok`: no hazard, no wrong number, no result that depends on the order. `data` is all that the command line says."""

    ok: bool
    findings: List[Finding]
    differing: List[str]
    data: Dict[str, Any] = field(repr=False)


def command() -> List[str]:
    """The program: TILEWRIGHT (a command line), else tilewright of the PATH, else npx."""
    named = os.environ.get("TILEWRIGHT")
    if named:
        return shlex.split(named)
    found = shutil.which("tilewright")
    if found:
        return [found]
    npx = shutil.which("npx")
    if npx is None:
        raise Error([{"code": "TW7050", "at": "tilewright", "message": "neither tilewright nor npx is on PATH: install Node 20.19 or later"}])
    return [npx, "--yes", "tilewright"]


def _run(words: Sequence[str], stdin: Optional[str] = None) -> Dict[str, Any]:
    done = subprocess.run([*command(), *words, "--json", "--quiet"], input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8")
    try:
        data = json.loads(done.stdout)
    except ValueError:
        raise RuntimeError(f"tilewright ended with {done.returncode}: {done.stderr.strip()}") from None
    if isinstance(data, dict) and "diagnostics" in data:
        raise Error(data["diagnostics"])
    return data


def _text(ptx: str) -> str:
    """PTX text, or the path of a file of it."""
    if "\n" in ptx:
        return ptx
    with open(ptx, encoding="utf-8") as file:
        return file.read()


def entries(ptx: str) -> List[Dict[str, Any]]:
    """The kernels of a text (or of a file): name, parameters, block, and what the emulator lacks of what they need."""
    return _run(["emulate", "-"], _text(ptx))["entries"]


def explain(rule: str) -> Dict[str, Any]:
    """What a rule (H033) or a diagnostic (TW2107) means: `checks`, `hardware`, `fix`, `isa`; of a diagnostic `meaning` and `advice`."""
    return _run(["explain", rule])


def _place(finding: Dict[str, Any]) -> Finding:
    source, location = finding["source"], finding["location"]
    return Finding(
        *(finding[name] for name in ("rule", "severity", "message", "instruction")),
        line=location and location["line"],
        source=source and f"{source['file']}:{source['line']}",
        count=finding["count"],
        suppressed=finding["suppressed"],
    )


def emulate(ptx: str, launch: Union[str, Dict[str, Any]], **flags: Any) -> Report:
    """Run a kernel (text, or the path of a file) as a launch file (a dictionary, or its path) says.

    Flags are those of the command line with _ for -: order="all", seeds=20, search=True, suppress="H010:120".
    Raises Error where the launch cannot start; what goes wrong while it runs is in the report.
    """
    words: List[str] = []
    for name, value in flags.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value is not None and value is not False:
            words += [flag, str(value)]
    with tempfile.TemporaryDirectory() as folder:
        path = launch
        if not isinstance(launch, str):
            path = os.path.join(folder, "launch.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(launch, file)
        data = _run(["emulate", "-", "--launch", str(path), *words], _text(ptx))
    return Report(data["ok"], [_place(finding) for finding in data["findings"]], data["differing"], data)


_DTYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "int8": "s8", "uint8": "u8", "bool": "u8", "int16": "s16", "uint16": "u16",
    "int32": "s32", "uint32": "u32", "int64": "s64", "uint64": "u64",
}  # fmt: skip


def _buffer(tensor: Any, seed: int) -> Dict[str, Any]:
    name = str(tensor.dtype).split(".")[-1]
    if name not in _DTYPES:
        raise ValueError(f"no element type of launch files is a {name}")
    kind = "normal" if "float" in name else "integers"
    shape = [int(extent) for extent in tensor.shape] or [1]
    return {"dtype": _DTYPES[name], "shape": shape, "fill": {kind: {"seed": seed}}}


def triton_launch(compiled: Any, grid: Sequence[int], args: Sequence[Any]) -> Dict[str, Any]:
    """The launch file of a kernel that Triton has compiled: `args` are its run-time arguments, tensors and numbers, in order.

    Parameters behind them (Triton's own scratch memory) get an empty buffer of 1 MiB each.
    """
    metadata = compiled.metadata
    entry = next(one for one in entries(compiled.asm["ptx"]) if one["entry"] == metadata.name)
    cluster = getattr(metadata, "num_ctas", 1) or 1
    buffers: Dict[str, Any] = {}
    params: List[Any] = []
    for k, param in enumerate(entry["params"]):
        value = args[k] if k < len(args) else None
        if value is None or hasattr(value, "shape"):
            buffers[f"arg{k}"] = {"bytes": 1 << 20, "fill": "zeros"} if value is None else _buffer(value, k + 1)
            params.append({"buffer": f"arg{k}"})
        else:
            wide = isinstance(value, int) and abs(value) > 2**53
            params.append({"int": str(value)} if wide else float(value) if isinstance(value, float) and math.isfinite(value) else int(value))
    x, y, z = (list(grid) + [1, 1, 1])[:3]
    return {
        "entry": metadata.name,
        "grid": [x * cluster, y, z],
        "block": metadata.num_warps * 32,
        **({"cluster": cluster} if cluster > 1 else {}),
        "dynamicSmem": metadata.shared,
        "buffers": buffers,
        "params": params,
    }
