"""What manifests say in expressions: constraints, grids, which GPUs an image is for."""
import re


class LaunchError(Exception):
    """A launch that cannot be made, or an error of the driver; status is its number or None."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


class NoKernel(LaunchError):
    """No kernel of the library serves these arguments on this GPU."""


_OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x // y,
    "ceilDiv": lambda x, y: -(-x // y),
    "mod": lambda x, y: x % y,
    "min": min,
    "max": max,
}
_COMPARISONS = {
    "eq": ("==", lambda x, y: x == y),
    "ne": ("!=", lambda x, y: x != y),
    "lt": ("<", lambda x, y: x < y),
    "le": ("<=", lambda x, y: x <= y),
    "gt": (">", lambda x, y: x > y),
    "ge": (">=", lambda x, y: x >= y),
}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "//", "mod": "%"}


def evaluate(expr, env):
    """The value of a launch expression: a number, a name of env, or [operation, left, right]."""
    if isinstance(expr, str):
        return env[expr]
    if isinstance(expr, list):
        return _OPERATIONS[expr[0]](evaluate(expr[1], env), evaluate(expr[2], env))
    return expr


def holds(constraint, env):
    """Whether a constraint [comparison, left, right] holds."""
    return _COMPARISONS[constraint[0]][1](evaluate(constraint[1], env), evaluate(constraint[2], env))


def _text(expr):
    if not isinstance(expr, list):
        return str(expr)
    left, right = _text(expr[1]), _text(expr[2])
    return "%s %s %s" % (left, _INFIX[expr[0]], right) if expr[0] in _INFIX else "%s(%s, %s)" % (expr[0], left, right)


def _names(expr):
    if isinstance(expr, list):
        return _names(expr[1]) + _names(expr[2])
    return [expr] if isinstance(expr, str) else []


def explain(constraint, env):
    """A constraint that fails, with the values that it is about: `k % 8 == 0, and k is 77`."""
    comparison, left, right = constraint
    values = ["%s is %s" % (name, env[name]) for name in dict.fromkeys(_names(left) + _names(right))]
    return "%s %s %s, and %s" % (_text(left), _COMPARISONS[comparison][0], _text(right), ", ".join(values))


def runs(rule, capability):
    """Whether a GPU of this compute capability runs what is made for {"rule", "major", "minor"}."""
    made = (rule["major"], rule["minor"])
    if rule["rule"] == "portable":
        return capability >= made
    if rule["rule"] == "family":
        return capability[0] == made[0] and capability >= made
    return capability == made


def resolve(kernel, env):
    """Grid, block, cluster and bytes of dynamic shared memory of a kernel of a manifest."""
    launch = kernel["launch"]
    grid = tuple(evaluate(expr, env) for expr in launch["grid"])
    for extent, most in zip(grid, (2147483647, 65535, 65535)):
        if not 1 <= extent <= most:
            raise LaunchError("no GPU launches a grid of %d x %d x %d" % grid)
    return grid, tuple(launch["block"]), tuple(launch["cluster"]), launch["dynamicSmem"]


def _image_rule(image):
    major, minor, suffix = re.fullmatch(r"sm_(\d{1,2})(\d)([af]?)", image["arch"]).groups()
    plain = "family" if image["format"] == "cubin" else "portable"
    return {"rule": {"": plain, "a": "arch", "f": "family"}[suffix], "major": int(major), "minor": int(minor)}
