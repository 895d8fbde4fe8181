"""For all tests: what the compiler does is shared, counted and let go, and JAX is asked to be strict."""

import gc
import os
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import settings

# No test is a matter of time: on a busy machine an example takes what it takes.
settings.register_profile("neft", deadline=None)
settings.load_profile("neft")

# The environment, not jax.config: programs that tests start read it too.
_CACHE = Path(__file__).parent / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# Most of what quick tests take is the compiler's. Answers are the same to rounding. Simulations want some optimization:
# at level 1 they are as fast as at the compiler's own, and compiling takes half the time. A flag that it does not know
# ends the process, and from 0.11 on it does not know the second one.
_FLAGS = [f"--xla_backend_optimization_level={os.environ.get('NEFT_XLA_LEVEL', '0')}"]
if metadata.version("jaxlib").startswith("0.10."):
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(_FLAGS))

import jax  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# They import PyTorch and Flax, which are in an environment of their own.
collect_ignore = [f"src/neft/models/{name}.py" for name in ("_torch", "_linen", "_nnx")]

_SOURCE = Path(__file__).parent / "src"
_MAPS = Path("/proc/self/maps")
_MOST = 45_000  # memory maps; Linux allows 65,530 by default, and XLA's compiler crashes there

_compiled = {"programs": 0, "seconds": 0.0, "cached": 0}


def _count(event: str, seconds: float, **_: object) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _compiled["programs"] += 1
        _compiled["seconds"] += seconds


def _hit(event: str, **_: object) -> None:
    if event == "/jax/compilation_cache/cache_hits":
        _compiled["cached"] += 1


jax.monitoring.register_event_duration_secs_listener(_count)
jax.monitoring.register_event_listener(_hit)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Examples of docstrings, which compile much and repeat what tests say, are among the slow tests."""
    for item in items:
        if _SOURCE in item.path.parents:
            item.add_marker(pytest.mark.slow)


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Between files, forget all compiled programs if they are many: each holds some memory maps while JAX caches it."""
    if nextitem is None or nextitem.path == item.path or not _MAPS.exists():
        return
    with _MAPS.open("rb") as lines:
        held = sum(1 for _ in lines)
    if held > _MOST:
        jax.clear_caches()
        gc.collect()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands its counts to the process that prints them."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["compiled"] = dict(_compiled)


@pytest.hookimpl(optionalhook=True)  # xdist's
def pytest_testnodedown(node, error) -> None:
    """Counts of a worker that ended."""
    for name, value in getattr(node, "workeroutput", {}).get("compiled", {}).items():
        _compiled[name] += value


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many programs the compiler was asked for, beside pytest's own list of the slowest tests."""
    terminalreporter.write_line(
        f"{_compiled['programs']} programs compiled in {_compiled['seconds']:.0f} s, "
        f"{_compiled['cached']} of them taken from {_CACHE.relative_to(Path(__file__).parent)}"
    )
