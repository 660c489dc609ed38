"""The quality suite of `cargo dev bench tuner-quality`: our samplers beside Optuna's and Rustuna's.

What is measured and how is said in docs/benchmarks/tuner-quality.md.
"""

import argparse
import json
import multiprocessing
import os
import random
import sys
import time

# Threads of the arithmetic libraries would only stand in each other's way.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import engines
import measures
import problems

CHANCE = "atune:random"
SINGLE = ["tpe", "cma-es", "nsga2", "gp", "auto"]
PEERS = ["optuna:tpe", "optuna:cma-es", "optuna:nsga2", "rustuna:tpe", "rustuna:cma-es", "rustuna:nsga2"]
DEFAULT = [CHANCE, *(f"atune:{kind}" for kind in SINGLE), *PEERS]
FRONTS = [
    CHANCE,
    *(f"atune:{kind}" for kind in ("tpe", "nsga2", "nsga3", "gp", "auto")),
    *("optuna:tpe", "optuna:nsga2", "optuna:nsga3"),
]
# Whom ours are compared with: the one of the same kind, and for `auto` what people get who choose nothing.
RIVALS = {
    "atune:tpe": "optuna:tpe",
    "atune:cma-es": "optuna:cma-es",
    "atune:nsga2": "optuna:nsga2",
    "atune:nsga3": "optuna:nsga3",
    "atune:gp": "optuna:gp",
    "atune:auto": "optuna:tpe",
}
SCHEDULERS = ["none", "median", "asha", "hyperband"]
WORKERS = 8
SLOW_SEEDS = 10
QUICK = {
    "functions": ["sphere_5d", "mixed_conditional"],
    "bbob": ["bbob_f8_5d"],
    "tables": ["hpobench_segment"],
    "parallel": ["ackley_5d"],
    "fronts": ["zdt1_8d"],
    "pruning": ["curves_4d"],
    "live": ["forest_diabetes"],
}


def run(job):
    """One study: its best value, and the seconds that the sampler took."""
    group, problem, sampler, seed, trials = (
        job[key] for key in ("group", "problem", "sampler", "seed", "trials")
    )
    try:
        found = problems.problem(group, problem)
        noise = random.Random(seed * 1009 + 7)
        if group == "fronts":
            return job | front(found, engines.create(sampler, seed, len(found.reference)), trials, noise)
        if group == "pruning":
            sampler, scheduler = sampler.split("+")
            return job | epochs(found, engines.create(sampler, seed, 1, scheduler), trials)
        at_once = WORKERS if group == "parallel" else 1
        return job | single(found, engines.create(sampler, seed), trials, noise, at_once)
    except Exception as error:  # Whatever a tuner cannot do is shown, and the others go on.
        return job | {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def single(problem, study, trials, noise, at_once):
    """The incumbent is chosen by what the sampler was told, and judged by what it is worth."""
    told, best, running = float("inf"), float("inf"), []
    for _ in range(trials):
        trial = study.ask()
        running.append((trial, *problem.run(trial, noise)))
        if len(running) == at_once:
            # The one that was started first ends first.
            trial, seen, worth = running.pop(0)
            study.tell(trial, seen)
            if seen < told:
                told, best = seen, worth
    for trial, seen, worth in running:
        study.tell(trial, seen)
        if seen < told:
            told, best = seen, worth
    return {"best": best, "seconds": study.seconds}


def front(problem, study, trials, noise):
    points = []
    for _ in range(trials):
        trial = study.ask()
        values, _ = problem.run(trial, noise)
        study.tell(trial, values)
        points.append(values)
    return {"best": -measures.volume(points, problem.reference), "seconds": study.seconds}


def epochs(problem, study, trials):
    """The best last value, and how many epochs were trained."""
    best, used = float("inf"), 0
    for _ in range(trials):
        trial = study.ask()
        value = None
        for step, value in enumerate(problem.epochs(trial), 1):
            used += 1
            trial.report(value, step)
            if step < problem.length and trial.should_prune():
                study.prune(trial)
                value = None
                break
        if value is not None:
            study.tell(trial, value)
            best = min(best, value)
    return {"best": best, "seconds": study.seconds, "epochs": used / (trials * problem.length)}


def jobs(args):
    """All studies, slow groups last."""
    listed = []
    for group in args.group or problems.GROUPS:
        trials = args.trials * 2 if group == "fronts" else args.trials
        names = [problem.name for problem in problems.GROUPS[group]]
        if args.quick:
            names = QUICK[group]
        if args.problem:
            names = [name for name in names if name in args.problem]
        samplers = FRONTS if group == "fronts" else DEFAULT
        if group == "pruning":
            samplers = [f"{tuner}:tpe+{kind}" for tuner in ("atune", "optuna") for kind in SCHEDULERS]
        if args.quick and group not in ("fronts", "pruning"):
            samplers = [CHANCE, "atune:tpe", "atune:cma-es", "atune:auto", "optuna:tpe", "rustuna:tpe"]
        if args.sampler:
            samplers = args.sampler
        for problem in names:
            for sampler in samplers:
                is_slow = group == "live" or "net" in problem or sampler.endswith((":gp", ":auto"))
                for seed in range(min(args.seeds, SLOW_SEEDS) if is_slow else args.seeds):
                    job = {"group": group, "problem": problem, "sampler": sampler, "seed": seed}
                    listed.append(job | {"trials": trials})
    return listed


def key(job):
    return tuple(job[name] for name in ("group", "problem", "sampler", "seed", "trials"))


def work(args):
    """Runs what is not in the file of earlier runs yet."""
    wanted, known = jobs(args), {}
    if args.runs and os.path.exists(args.runs):
        with open(args.runs, encoding="utf-8") as lines:
            earlier = [json.loads(line) for line in lines]
        known = {key(run): run for run in earlier if "error" not in run}
    missing = [job for job in wanted if key(job) not in known]
    begun = shown = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with context.Pool(args.processes, maxtasksperchild=200) as pool:
        for count, done in enumerate(pool.imap_unordered(run, missing), 1):
            known[key(done)] = done
            if args.runs:
                with open(args.runs, "a", encoding="utf-8") as lines:
                    lines.write(json.dumps(done) + "\n")
            if time.monotonic() - shown > 15:
                shown = time.monotonic()
                print(
                    f"{count} of {len(missing)} studies, {shown - begun:.0f} s", file=sys.stderr, flush=True
                )
    return [known[key(job)] for job in wanted if key(job) in known]


def optima(group):
    """The known best values; of fronts, less the volume of the true one."""
    found = {}
    for problem in problems.GROUPS[group]:
        found[problem.name] = problem.optimum
        if group == "fronts" and problem.true_front is not None:
            found[problem.name] = -measures.volume(problem.true_front(), problem.reference)
    return found


def chance_of(group):
    return "atune:tpe+none" if group == "pruning" else CHANCE


def summary(group, runs):
    whole = [run for run in runs if "error" not in run]
    found = measures.by_problem(whole)
    table = measures.regrets(found, optima(group), chance_of(group))
    samplers = list(dict.fromkeys(run["sampler"] for run in whole))
    ranks = measures.ranks(found, samplers)
    totals = []
    for sampler in samplers:
        own = [row for row in table.values() if row["sampler"] == sampler]
        known = [row["regret"] for row in own if row["regret"] is not None]
        total = {
            "sampler": sampler,
            "regret": measures.geometric(known) if known else None,
            "rank": measures.mean_rank(ranks[sampler]) if sampler in ranks else None,
            "seconds": sum(row["seconds"] for row in own) / len(own),
        }
        used = [run["epochs"] for run in whole if run["sampler"] == sampler and "epochs" in run]
        if used:
            total["epochs"] = sum(used) / len(used)
        rival = rival_of(sampler)
        if rival in samplers and sampler in ranks:
            # Against this one alone: what others do changes nothing.
            pair = measures.ranks(found, [sampler, rival])
            total["against"] = {"rival": rival} | (measures.compare(pair, sampler, rival) or {})
        totals.append(total)
    errors = sorted({(run["sampler"], run["problem"], run["error"]) for run in runs if "error" in run})
    return {"rows": list(table.values()), "totals": totals, "errors": errors}


def rival_of(sampler):
    name, plus, scheduler = sampler.partition("+")
    return RIVALS.get(name, "") + plus + scheduler


def shown(value, form):
    return "-" if value is None else format(value, form)


def tell(group, trials, told):
    print(f"\n{group}: {trials} trials")
    for row in sorted(told["rows"], key=lambda row: (row["problem"], row["median"])):
        print(
            f"  {row['problem']:<32} {row['sampler']:<22} median {row['median']:>11.5g}  "
            f"quartiles {row['low']:>11.5g} {row['high']:>11.5g}  regret {shown(row['regret'], '.4f'):>7}  "
            f"{row['seeds']} seeds, {row['seconds']:.2f} s"
        )
    for total in sorted(told["totals"], key=lambda total: total["rank"] or 0):
        line = (
            f"  {total['sampler']:<22} regret {shown(total['regret'], '.4f'):>7}  "
            f"mean rank {shown(total['rank'], '.2f'):>5}  {total['seconds']:.2f} s"
        )
        if "epochs" in total:
            line += f"  {total['epochs']:.0%} of the epochs"
        against = total.get("against", {})
        if "difference" in against:
            verdict = "no worse" if against["low"] <= 0 else "WORSE"
            line += f"  against {against['rival']} {against['difference']:+.2f} "
            line += f"[{against['low']:+.2f}, {against['high']:+.2f}] {verdict}"
        print(line)
    for sampler, problem, error in told["errors"]:
        print(f"  {sampler} cannot {problem}: {error}")


def main():
    parser = argparse.ArgumentParser(prog="tuner-quality")
    parser.add_argument("--quick", action="store_true", help="some minutes, to see that everything works")
    parser.add_argument("--json", metavar="FILE", help="also writes the results there")
    parser.add_argument("--runs", metavar="FILE", help="keeps finished studies there, and goes on from them")
    parser.add_argument("--group", action="append", choices=list(problems.GROUPS), help="may be repeated")
    parser.add_argument("--problem", action="append", help="may be repeated")
    parser.add_argument("--sampler", action="append", metavar="TUNER:KIND", help="may be repeated")
    parser.add_argument("--seeds", type=int, default=None, help="20, of slow ones at most 10")
    parser.add_argument("--trials", type=int, default=None, help="100, with several objectives twice as many")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    args.seeds = args.seeds or (2 if args.quick else 20)
    args.trials = args.trials or (40 if args.quick else 100)
    runs = work(args)
    results = {}
    for group in dict.fromkeys(run["group"] for run in runs):
        own = [run for run in runs if run["group"] == group]
        results[group] = summary(group, own)
        tell(group, own[0]["trials"], results[group])
    if args.json:
        text = json.dumps({"seeds": args.seeds, "groups": results, "runs": runs}, indent=1) + "\n"
        with open(args.json, "w", encoding="utf-8") as file:
            file.write(text)
    # A tuner of others may lack something; ours may not.
    own = [error for told in results.values() for error in told["errors"] if error[0].startswith("atune")]
    sys.exit(1 if own or not runs else 0)


if __name__ == "__main__":
    main()
