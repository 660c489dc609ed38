"""What runs add up to: regrets, ranks, and how sure the ranks are."""

import math
import random
import statistics


def quartiles(values):
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def by_problem(runs):
    """Runs by problem, sampler and seed."""
    found = {}
    for run in runs:
        found.setdefault(run["problem"], {}).setdefault(run["sampler"], {})[run["seed"]] = run
    return found


def regrets(found, optima, chance):
    """The regret of each sampler on each problem: 0 at the optimum, 1 for random search."""
    table = {}
    for problem, samplers in found.items():
        best = optima.get(problem)
        if best is None:
            best = min(run["best"] for runs in samplers.values() for run in runs.values())
        reference = None
        if chance in samplers:
            reference = statistics.median(run["best"] for run in samplers[chance].values())
        for sampler, runs in samplers.items():
            low, median, high = quartiles([run["best"] for run in runs.values()])
            regret = None
            if reference is not None and reference > best:
                regret = (median - best) / (reference - best)
            table[problem, sampler] = {
                "problem": problem,
                "sampler": sampler,
                "median": median,
                "low": low,
                "high": high,
                "regret": regret,
                "seconds": statistics.median(run["seconds"] for run in runs.values()),
                "seeds": len(runs),
            }
    return table


def geometric(values):
    return math.exp(statistics.mean(math.log(max(value, 1e-9)) for value in values))


def ranks(found, samplers):
    """The rank of each of some samplers, by problem and seed: 1 is best, equals share theirs."""
    table = {}
    for problem, runs in found.items():
        present = [sampler for sampler in samplers if sampler in runs]
        if len(present) < 2:
            continue
        for seed in set.intersection(*(set(runs[sampler]) for sampler in present)):
            values = {sampler: runs[sampler][seed]["best"] for sampler in present}
            for sampler, value in values.items():
                near = 1e-12 + 1e-9 * abs(value)
                better = sum(other < value - near for other in values.values())
                equal = sum(abs(other - value) <= near for other in values.values())
                table.setdefault(sampler, {}).setdefault(problem, {})[seed] = better + (equal + 1) / 2
    return table


def mean_rank(by_seed):
    return statistics.mean(statistics.mean(seeds.values()) for seeds in by_seed.values())


def compare(table, ours, theirs, rounds=2000):
    """The mean difference of two samplers' ranks, below 0 when ours is better, and its 95 % interval."""
    differences = []
    for problem, seeds in table[ours].items():
        other = table[theirs].get(problem, {})
        both = [seeds[seed] - other[seed] for seed in seeds if seed in other]
        if both:
            differences.append(both)
    if not differences:
        return None
    draw = random.Random(0)
    means = sorted(
        statistics.mean(statistics.mean(draw.choices(both, k=len(both))) for both in differences)
        for _ in range(rounds)
    )
    low, high = means[round(0.025 * (rounds - 1))], means[round(0.975 * (rounds - 1))]
    return {"difference": statistics.mean(map(statistics.mean, differences)), "low": low, "high": high}


def volume(points, reference):
    """The volume that points dominate, up to a reference point; at most three objectives."""
    inside = sorted({tuple(p) for p in points if all(v < r for v, r in zip(p, reference))})
    if len(reference) == 2:
        total, height = 0.0, reference[1]
        for x, y in inside:
            if y < height:
                total += (reference[0] - x) * (height - y)
                height = y
        return total
    # Slices along the last objective.
    inside.sort(key=lambda point: point[-1])
    total = 0.0
    for nth, point in enumerate(inside):
        end = inside[nth + 1][-1] if nth + 1 < len(inside) else reference[-1]
        if end > point[-1]:
            total += (end - point[-1]) * volume([p[:-1] for p in inside[: nth + 1]], reference[:-1])
    return total
