"""How long Optuna's and Rustuna's samplers think: asking, drawing the parameters and telling, in memory."""

import os
import random
import statistics
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import engines

CASES = [(kind, 3) for kind in ("random", "tpe", "cma-es", "nsga2")]


def latency(sampler, params, past, rounds):
    study = engines.create(sampler, 1)
    noise = random.Random(past)

    def trial(value):
        asked = study.ask()
        x = [asked.suggest_float(f"x{nth}", -5, 5) for nth in range(params)]
        study.tell(asked, value(x))

    if sampler.startswith("optuna"):
        import optuna

        dists = {f"x{nth}": optuna.distributions.FloatDistribution(-5, 5) for nth in range(params)}
        for _ in range(past):
            point = {name: noise.uniform(-5, 5) for name in dists}
            value = sum(x * x for x in point.values())
            study.inner.add_trial(optuna.create_trial(params=point, distributions=dists, value=value))
    else:
        # What it draws by itself costs it little.
        for _ in range(past):
            trial(lambda x: sum(v * v for v in x))
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        trial(lambda x: sum(v * v for v in x))
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3, statistics.quantiles(times, n=10)[8] * 1e3


def main():
    is_quick = "--quick" in sys.argv
    for tuner in ("optuna", "rustuna"):
        for kind, params in CASES:
            for past in (100,) if is_quick else (100, 1000, 5000):
                median, high = latency(f"{tuner}:{kind}", params, past, 10 if is_quick else 60)
                print(
                    f"{tuner}:{kind}, {params} parameters, after {past} trials: "
                    f"median {median:.3f} ms, 90 % {high:.3f} ms",
                    flush=True,
                )


main()
