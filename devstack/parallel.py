"""Do several things at once; the first fault calls off the rest and is the one reported."""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from devstack.errors import StoppedError
from devstack.processes import Children


def run_all(owner: Children, actions: Sequence[Callable[[], None]]) -> None:
    """Run actions in a thread each. When one fails, or on Ctrl-C, `owner` is closed."""
    pool = ThreadPoolExecutor(len(actions), thread_name_prefix="devstack")
    try:
        futures = [pool.submit(action) for action in actions]
        wait(futures, return_when=FIRST_EXCEPTION)
        _raise_first(futures)
    except BaseException:
        owner.close()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _raise_first(futures: Sequence[Future[None]]) -> None:
    """Raise the first error, not one of an action that was called off because of it."""
    errors = [error for future in futures if future.done() and (error := future.exception())]
    for error in sorted(errors, key=lambda error: isinstance(error, StoppedError)):
        raise error
