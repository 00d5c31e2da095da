"""Operations of a kernel library as functions of tensors: `from NAME import OPERATION; OPERATION(x, weight, bias)`.

They take torch tensors on a GPU, or arrays with __dlpack__ (cupy, jax), and give such a one. dtype, device, shape, strides and
alignment are checked: LaunchError names the operand and what it breaks, NoKernel the kernels and their constraints. Launches go
to torch's current stream and are not waited for. OPERATION.__doc__ says what each takes; torch.ops.NAME.OPERATION is the same
operation for torch.compile, torch.export and torch.library. NAME.Library launches on addresses, without torch.
"""
import os

from ._expressions import LaunchError, NoKernel
from ._library import Catalogue, Library

catalogue = Catalogue(os.path.dirname(os.path.abspath(__file__)))
__all__ = ["LaunchError", "Library", "NoKernel", "catalogue", *catalogue.dispatch]


def __getattr__(name):
    if name not in catalogue.dispatch:
        raise AttributeError("module '%s' has no operation '%s': it has %s" % (__name__, name, ", ".join(catalogue.dispatch)))
    # Only here is torch needed.
    from . import _torch

    globals().update(_torch.operations(catalogue))
    return globals()[name]


def __dir__():
    return __all__
