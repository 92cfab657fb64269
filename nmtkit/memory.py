"""Memory that a process has had stays with it."""

from __future__ import annotations

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of mallopt(3)
KEPT = 1 << 30  # bytes at the end of the heap that are not given back


def keep_freed_memory() -> None:
    """Have the C library reuse large blocks. Without this it gives each back when it is freed.

    An update takes hundreds of megabytes and frees them again, and a page that comes from the
    system costs more than the arithmetic on it: training on a CPU is some percent faster.
    Where the C library is not glibc nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_MAX, 0)
    mallopt(_TRIM_THRESHOLD, KEPT)
