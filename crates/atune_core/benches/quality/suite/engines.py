"""The tuners: each makes a study that is asked and told."""

import time


class Asked:
    """A trial whose own time is counted."""

    def __init__(self, study, trial):
        self.study, self.trial = study, trial

    def __getattr__(self, name):
        method = getattr(self.trial, name)

        def timed(*args, **options):
            begun = time.perf_counter()
            try:
                return method(*args, **options)
            finally:
                self.study.seconds += time.perf_counter() - begun

        return timed


class Study:
    """A study of any tuner, which counts the seconds that its calls take."""

    def __init__(self, inner):
        self.inner, self.seconds = inner, 0.0

    def timed(self, call):
        begun = time.perf_counter()
        try:
            return call()
        finally:
            self.seconds += time.perf_counter() - begun

    def ask(self):
        return Asked(self, self.timed(self.inner.ask))

    def tell(self, asked, values):
        self.timed(lambda: self._tell(asked.trial, values))

    def prune(self, asked):
        self.timed(lambda: self._prune(asked.trial))


class Atune(Study):
    def __init__(self, sampler, seed, objectives, scheduler):
        import atune

        atune.set_verbosity(40)
        directions = ["minimize"] * objectives
        made = atune.create_study(directions=directions, seed=seed, sampler=sampler, scheduler=scheduler)
        super().__init__(made)
        self.pruned = atune.TrialState.PRUNED

    def _tell(self, trial, values):
        self.inner.tell(trial, values)

    def _prune(self, trial):
        self.inner.tell(trial, state=self.pruned)


class Optuna(Study):
    def __init__(self, sampler, seed, objectives, scheduler):
        import warnings

        import optuna

        warnings.filterwarnings("ignore")
        optuna.logging.set_verbosity(optuna.logging.CRITICAL)
        kinds = optuna.samplers
        made = {
            "random": lambda: kinds.RandomSampler(seed=seed),
            "qmc": lambda: kinds.QMCSampler(seed=seed, scramble=True),
            "tpe": lambda: kinds.TPESampler(seed=seed),
            "tpe-group": lambda: kinds.TPESampler(seed=seed, multivariate=True, group=True),
            "cma-es": lambda: kinds.CmaEsSampler(seed=seed),
            "nsga2": lambda: kinds.NSGAIISampler(seed=seed, population_size=20),
            "nsga3": lambda: kinds.NSGAIIISampler(seed=seed, population_size=20),
            "gp": lambda: kinds.GPSampler(seed=seed),
        }[sampler]()
        pruner = {
            "none": optuna.pruners.NopPruner,
            "median": optuna.pruners.MedianPruner,
            "asha": optuna.pruners.SuccessiveHalvingPruner,
            "hyperband": optuna.pruners.HyperbandPruner,
        }[scheduler]()
        super().__init__(
            optuna.create_study(directions=["minimize"] * objectives, sampler=made, pruner=pruner)
        )
        self.pruned = optuna.trial.TrialState.PRUNED

    def _tell(self, trial, values):
        self.inner.tell(trial, values)

    def _prune(self, trial):
        self.inner.tell(trial, state=self.pruned)


class Rustuna(Study):
    def __init__(self, sampler, seed, objectives, scheduler):
        import rustuna

        kinds = rustuna.samplers
        made = {
            "random": kinds.RandomSampler,
            "tpe": kinds.TPESampler,
            "cma-es": kinds.CmaEsSampler,
            "nsga2": kinds.NSGAIISampler,
        }[sampler](seed=seed)
        if objectives == 1:
            super().__init__(rustuna.create_study(sampler=made))
        else:
            super().__init__(rustuna.create_study(sampler=made, directions=["minimize"] * objectives))

    def _tell(self, trial, values):
        self.inner.tell(trial.number, values)


ENGINES = {"atune": Atune, "optuna": Optuna, "rustuna": Rustuna}


def create(name, seed, objectives=1, scheduler="none"):
    """Make a study of `tuner:sampler`."""
    engine, sampler = name.split(":")
    return ENGINES[engine](sampler, seed, objectives, scheduler)
