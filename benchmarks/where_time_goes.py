"""Where the time of an update goes, by kind of operation.

    python where_time_goes.py [--size small] [--threads 2] [--updates 10]

One network with random text of fixed lengths, as growth.py has it. Prints a line a kind:
milliseconds an update and percent of it; and the limit by products alone, as limit.py measures it.
"""

from __future__ import annotations

import argparse
import time

import torch
from growth import SOURCE, TARGET, VOCABULARY, batch_of, model_of, update
from limit import seconds
from sizes import BATCH, SIZES, products
from torch.profiler import ProfilerActivity, profile

from nmtkit.memory import keep_freed_memory

#: Operations of torch by kind; all others are arithmetic on single numbers.
KINDS = {
    "matrix products": "mm addmm addmm_ bmm baddbmm baddbmm_ mv addmv addmv_",
    "exponentials": "exp_ log sigmoid sigmoid_ sigmoid_backward tanh tanh_ tanh_backward _softmax",
    "optimiser, clipping": "_fused_adam_ linalg_vector_norm _foreach_norm _foreach_mul_",
    "copies and look-ups": (
        "copy_ cat fill_ zero_ index index_select index_add_ gather scatter_add_ "
        "embedding_dense_backward"
    ),
}
KIND_OF = {f"aten::{name}": kind for kind, names in KINDS.items() for name in names.split()}
KIND_OF["mkldnn::_linear_pointwise"] = "matrix products"
ARITHMETIC, REST = "other arithmetic", "Python, dispatch, autograd"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--updates", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    keep_freed_memory()
    size = SIZES[arguments.size]
    model = model_of(size, VOCABULARY).train()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    batch = batch_of(BATCH, SOURCE, TARGET, VOCABULARY)

    def run() -> float:
        """Milliseconds an update."""
        began = time.perf_counter()
        for _ in range(arguments.updates):
            update(model, optimizer, batch)
        spent: float = time.perf_counter() - began
        return 1000 * spent / int(arguments.updates)

    run()
    whole = run()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        run()
    found = dict.fromkeys([*KINDS, ARITHMETIC], 0.0)
    for event in profiler.key_averages():
        if event.key.startswith(("aten::", "mkldnn::")):
            kind = KIND_OF.get(event.key, ARITHMETIC)
            found[kind] += event.self_cpu_time_total / 1000 / arguments.updates
    found[REST] = whole - sum(found.values())
    limit = 1000 * sum(map(seconds, products(size, SOURCE, TARGET, VOCABULARY)))
    print(f"{arguments.size}: {whole:.0f} ms an update, the limit is {limit:.0f} ms")
    print("kind\tms\t%")
    for kind, spent in found.items():
        print(f"{kind}\t{spent:.1f}\t{100 * spent / whole:.1f}")


if __name__ == "__main__":
    main()
