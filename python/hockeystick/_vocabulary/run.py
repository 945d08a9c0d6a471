"""A run of training in the user's own terms: stated once, checked, saved, and taken by the functions."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hockeystick import _html
from hockeystick._arguments import LARGEST_DATASET, LARGEST_GROUP, count_scalar, float_scalar, require, shown
from hockeystick._atomic import write_atomically
from hockeystick._vocabulary.adjacency import ADJACENCIES, ZERO_OUT, check_adjacency
from hockeystick._vocabulary.correlated_noise import CorrelatedNoise
from hockeystick._vocabulary.drawing import (
    check_scheme_name,
    described_scheme,
    scheme_of,
    steps_of,
)
from hockeystick._vocabulary.groups import Group, check_group
from hockeystick._vocabulary.mechanisms import Mechanism, check_noise_multiplier
from hockeystick._vocabulary.participation import Participation
from hockeystick._vocabulary.run_facts import (
    check_run_mechanism,
    mechanism_of,
    noise_of,
    participation_of,
    plain,
    with_noise,
)
from hockeystick._vocabulary.run_files import read_facts, written_as_json, written_as_toml
from hockeystick._vocabulary.sampling import Poisson, Sampling, Shuffle, check_sample_rate
from hockeystick._vocabulary.spelling import spelled_class, unknown_argument

_DRAWING = ("sample_rate", "batch_size", "dataset_size", "max_batch_size", "microbatches", "batches", "times")

_NO_NAME = (
    "sampling is missing: epsilon depends on how batches are drawn, which their size does not say. It is "
    "one of 'poisson', 'fixed', 'shuffle', 'full', 'random_allocation' and 'fixed_bins'; see "
    "hs.sampling_of(loader)"
)


@spelled_class
@dataclass(frozen=True, kw_only=True)
class Run:
    """A run of training, stated once in the terms of the training script.

    Functions that ask for the rate and the steps of a run take it in their place, such as
    ``hs.get_epsilon(run, delta=1e-5)``; the page "A run in your own terms" lists them. It cannot be changed;
    `replace` makes another one.

    Parameters
    ----------
    sampling : str or sampling scheme
        How batches are drawn: "poisson", "fixed", "shuffle", "full", "random_allocation" or "fixed_bins"; or
        a scheme such as ``hs.Poisson(0.01)``, which says its sizes too. For `CorrelatedNoise` also
        `FixedOrder`, `MinimumSeparation` or `CyclicPoisson`. There is no default.
    batch_size : int or float, optional
        Records in a batch; with "poisson" the expected number. Together with `dataset_size`.
    dataset_size : int, optional
        Number of records in the data set, in [1, 2**53].
    sample_rate : float, optional
        Probability in [0, 1] that a record is in a Poisson batch, in place of the two sizes.
    epochs : float, optional
        How often training walks through the data, at least 0. Give either this or `steps`.
    steps : int, optional
        Number of noisy updates, at least 0.
    noise_multiplier : float, optional
        Standard deviation of Gaussian noise divided by the clipping norm, at least 0. It may be left open for
        `get_noise_multiplier`.
    mechanism : AdaptiveClipping, BatchClipping, CorrelatedNoise, Laplace, Skellam or ..., optional
        Other noise, in place of `noise_multiplier`: one of those or `RandomizedResponse`. `CorrelatedNoise`
        without a stored matrix. A function that does not answer such noise says so.
    records_per_person : int, optional
        Largest number of records of one person, in [1, 10000]: the group that the guarantee is about.
    group : Group, optional
        The same for records that differ in rates or norms, in place of `records_per_person`.
    adjacency : {"add_remove", "add", "remove", "replace", "zero_out"}, optional
        What happens to these records. By default "add_remove", and "zero_out" where batches are shuffled.
    max_batch_size : int, optional
        Largest number of records in a Poisson batch, with `dataset_size`.
    microbatches : int, optional
        Number of Poisson batches that are added up before noise.
    batches : int, optional
        Number of batches of an epoch, of "random_allocation" and "fixed_bins".
    times : int, optional
        Number of batches of an epoch that each record is in, of "random_allocation".

    Raises
    ------
    TypeError
        If an argument has the wrong type, is unknown or missing, or belongs to another scheme.
    ValueError
        If an argument is out of range, or two contradict each other.

    Notes
    -----
    An epoch of Poisson or fixed batches has ``dataset_size / batch_size`` steps; the number of steps of all
    epochs together is rounded up. Shuffled batches that are not full are dropped. A loop that makes
    another number of steps states `steps`.

    Examples
    --------
    >>> import hockeystick as hs
    >>> run = hs.Run(batch_size=256, dataset_size=60_000, epochs=10, noise_multiplier=1.0,
    ...              records_per_person=8, sampling="poisson")
    >>> run.number_of_steps
    2344
    >>> print(f"{hs.get_epsilon(run, delta=1e-5):.3f}")
    11.912
    >>> print(f"{hs.get_noise_multiplier(run, epsilon=3.0, delta=1e-5):.3f}")
    2.440
    >>> run.replace(records_per_person=1).arguments["group_size"]
    1
    >>> run.scheme, len(run.sha256), run.facts["records_per_person"]
    (Poisson(sample_rate=0.004266666666666667), 64, 8)
    """

    sampling: str | Sampling | Shuffle | Participation = ""
    batch_size: int | float | None = None
    dataset_size: int | None = None
    sample_rate: float | None = None
    epochs: float | None = None
    steps: int | None = None
    noise_multiplier: float | None = None
    mechanism: Mechanism | CorrelatedNoise | None = None
    records_per_person: int = 1
    group: Group | None = None
    adjacency: str = ""
    max_batch_size: int | None = None
    microbatches: int = 1
    batches: int | None = None
    times: int | None = None
    _drawn: dict[str, Any] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._check_scheme()
        self._check_numbers()
        self._check_noise()
        if self.group is not None:
            size = check_group(self.group).size
            if self.records_per_person not in (1, size):
                raise TypeError("give at most one of records_per_person and group")
        self._set("adjacency", self._checked_adjacency())
        drawing = {name: getattr(self, name) for name in _DRAWING}
        if self.microbatches == 1:
            drawing["microbatches"] = None
        self._set("_drawn", self._drawn_as(drawing))
        if self.epochs is not None:
            made = steps_of(self.epochs, self._drawn)
            if self.steps is not None and self.steps != made:
                raise ValueError(
                    f"steps {self.steps} contradicts epochs {self.epochs:g}, which are {made} steps: give one"
                )

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _drawn_as(self, drawing: dict[str, Any]) -> dict[str, Any]:
        """Return the argument of `get_epsilon` that says how batches are drawn."""
        if isinstance(self.sampling, str):
            return scheme_of(self.sampling, drawing)
        if not isinstance(self.mechanism, CorrelatedNoise):
            raise TypeError(f"sampling {shown(self.sampling)} is for mechanism=CorrelatedNoise alone")
        for name, value in drawing.items():
            if value is not None and name != "dataset_size":
                raise TypeError(f"{name} does not belong to sampling {shown(self.sampling)}")
        return {"sampling": self.sampling}

    def _check_scheme(self) -> None:
        """Write the scheme as its name and sizes; one for `CorrelatedNoise` alone stays as it is."""
        if isinstance(self.sampling, Participation):
            return
        if isinstance(self.sampling, str):
            if not self.sampling:
                raise TypeError(_NO_NAME)
            self._set("sampling", check_scheme_name(self.sampling))
            return
        for name, value in described_scheme(self.sampling).items():
            stated = getattr(self, name)
            if name != "sampling" and stated is not None and stated != value and stated != 1:
                raise ValueError(f"{name} {shown(stated)} contradicts sampling {shown(self.sampling)}")
            if name != "sampling":
                self._set(name, value)
        self._set("sampling", described_scheme(self.sampling)["sampling"])

    def _check_numbers(self) -> None:
        for name in ("dataset_size", "max_batch_size"):
            if getattr(self, name) is not None:
                self._set(name, count_scalar(getattr(self, name), name, 1, LARGEST_DATASET))
        if self.batch_size is not None:
            size = float_scalar(self.batch_size, "batch_size")
            require(0.0 < size <= LARGEST_DATASET, "batch_size", size, "above 0 and at most 2**53")
            self._set("batch_size", int(size) if size.is_integer() else size)
        if self.sample_rate is not None:
            self._set("sample_rate", check_sample_rate(self.sample_rate))
        if self.steps is not None:
            self._set("steps", count_scalar(self.steps, "steps", 0))
        if self.epochs is not None:
            epochs = float_scalar(self.epochs, "epochs")
            require(0.0 <= epochs <= 2.0**53, "epochs", epochs, "finite and at least 0")
            self._set("epochs", int(epochs) if epochs.is_integer() else epochs)
        for name in ("records_per_person", "microbatches"):
            self._set(name, count_scalar(getattr(self, name), name, 1, LARGEST_GROUP))
        if self.dataset_size is not None and self.records_per_person > self.dataset_size:
            most = f"at most dataset_size {self.dataset_size}"
            require(False, "records_per_person", self.records_per_person, most)

    def _check_noise(self) -> None:
        if self.noise_multiplier is not None and self.mechanism is not None:
            raise TypeError("give at most one of noise_multiplier and mechanism")
        if self.noise_multiplier is not None:
            self._set("noise_multiplier", check_noise_multiplier(self.noise_multiplier))
        if self.mechanism is None:
            return
        noise = noise_of(check_run_mechanism(self.mechanism))
        if noise is not None:
            self._set("noise_multiplier", noise)
            self._set("mechanism", None)

    def _checked_adjacency(self) -> str:
        if self.adjacency == "":
            return ZERO_OUT if self.sampling == "shuffle" else ADJACENCIES[0]
        given: object = self.adjacency  # a Run is made of what users write, whatever its annotations say
        if isinstance(given, str) and given == ZERO_OUT:
            return ZERO_OUT
        return check_adjacency(self.adjacency)

    @property
    def number_of_steps(self) -> int | None:
        """Number of noisy updates, from `steps` or `epochs`; None if neither is stated."""
        if self.steps is not None:
            return self.steps
        return None if self.epochs is None else int(steps_of(self.epochs, self._drawn))

    @property
    def scheme(self) -> Sampling | Shuffle | Participation:
        """The sampling, as the functions take it."""
        rate = self._drawn.get("sample_rate")
        found: Sampling | Shuffle | Participation = self._drawn["sampling"] if rate is None else Poisson(rate)
        return found

    @property
    def arguments(self) -> dict[str, Any]:
        """The facts of the run, as arguments of `get_epsilon`.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.Run(sampling=hs.WithoutReplacement(100, 10_000), epochs=3, noise_multiplier=2.0)
        >>> run.arguments["sampling"], run.arguments["steps"]
        (WithoutReplacement(batch_size=100, dataset_size=10000), 300)
        """
        found = dict(self._drawn)
        noise = "noise_multiplier" if self.mechanism is None else "mechanism"
        found[noise] = getattr(self, noise)
        found["steps"] = self.number_of_steps
        whose = ("group", self.group) if self.group is not None else ("group_size", self.records_per_person)
        found |= {whose[0]: whose[1], "adjacency": self.adjacency}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def facts(self) -> dict[str, Any]:
        """The stated facts as strings, numbers, lists and dicts, from which files and the hash are made."""
        found: dict[str, Any] = {}
        for entry in dataclasses.fields(self):
            value = getattr(self, entry.name)
            if entry.name == "_drawn" or value is None or (entry.name == "microbatches" and value == 1):
                continue
            if entry.name in ("records_per_person",) and self.group is not None:
                continue
            found[entry.name] = plain(value)
        return found

    @property
    def sha256(self) -> str:
        """Hash of the facts, in 64 hexadecimal digits: the same wherever the same facts are stated."""
        import hashlib  # takes six milliseconds, which starts should not pay

        text = json.dumps(self.facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()

    def replace(self, **changes: Any) -> Run:
        """Return another run in which some facts are stated otherwise.

        Parameters
        ----------
        **changes
            Arguments of `Run`; None takes a fact back. Where `steps` is given, `epochs` no longer is, and the
            other way round; the same holds for `sample_rate` and the two sizes, and for `records_per_person`
            and `group`. `noise_multiplier` is that of a mechanism which has one, such as `BatchClipping`, and
            takes the place of any other; with ``mechanism=None`` it is that of Gaussian noise alone.

        Returns
        -------
        Run
            The other run.

        Raises
        ------
        TypeError
            If a change is unknown or has the wrong type.
        ValueError
            If a change is out of range.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.Run(sampling="poisson", sample_rate=0.01, steps=100, noise_multiplier=1.0)
        >>> run.replace(epochs=3).number_of_steps
        300
        """
        stated = {entry.name: getattr(self, entry.name) for entry in dataclasses.fields(self) if entry.init}
        for name in changes:
            if name not in stated:
                raise unknown_argument("Run.replace", name, stated)
        if changes.get("noise_multiplier") is not None and "mechanism" not in changes:
            changed = with_noise(self.mechanism, changes["noise_multiplier"])
            if changed is not None:
                changes = {name: value for name, value in changes.items() if name != "noise_multiplier"}
                changes["mechanism"] = changed
        for left, right in _EXCLUSIVE:
            for new, old in ((left, right), (right, left)):
                if any(changes.get(name) is not None for name in new):
                    stated |= {name: _UNSTATED.get(name) for name in old}
        if "sampling" in changes and not isinstance(changes["sampling"], str):
            stated |= {name: _UNSTATED.get(name) for name in _DRAWING}
        elif "sampling" in changes and "adjacency" not in changes and self.adjacency == ZERO_OUT:
            stated["adjacency"] = ""
        return Run(**stated | changes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the facts to a file.

        Parameters
        ----------
        path : str or path-like
            File whose name ends in ``.toml`` or ``.json``, in a folder that exists. It is replaced as a
            whole.

        Returns
        -------
        pathlib.Path
            The file.

        Raises
        ------
        ValueError
            If the name ends otherwise.
        OSError
            If the file cannot be written.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.Run(sampling="poisson", sample_rate=0.01, steps=100, noise_multiplier=1.0)
        >>> run.save("run.toml").name  # doctest: +SKIP
        'run.toml'
        """
        file = Path(os.fspath(path))
        require(file.suffix in (".toml", ".json"), "path", str(file), "a name that ends in .toml or .json")
        write = written_as_toml if file.suffix == ".toml" else written_as_json
        write_atomically(file, write(self.facts, self.sha256).encode("utf-8"), private=False)
        return file

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Run:
        """Read a run from a file.

        Parameters
        ----------
        path : str or path-like
            File that `save` wrote, or one written by hand with the arguments of `Run` as its keys.

        Returns
        -------
        Run
            The run.

        Raises
        ------
        ValueError
            If the file is no TOML or JSON, or a fact is out of range.
        TypeError
            If a key is unknown or a fact has the wrong type.
        OSError
            If the file cannot be read.

        Examples
        --------
        >>> import hockeystick as hs
        >>> hs.Run.load("run.toml").steps  # doctest: +SKIP
        100
        """
        facts, stated = read_facts(path)
        found = Run.from_facts(facts)
        if stated is not None and stated != found.sha256:
            raise ValueError(
                f"the facts in {os.fspath(path)} are not those of its sha256 {shown(stated)}: leave sha256 "
                "out if they were changed on purpose"
            )
        return found

    @staticmethod
    def from_facts(facts: Mapping[str, Any]) -> Run:
        """Return the run of which these are the `facts`.

        Parameters
        ----------
        facts : mapping
            Arguments of `Run`; a mechanism is a table such as ``{"name": "laplace", "scale": 1.0}``, so is a
            scheme for `CorrelatedNoise`; a group is a table of the arguments of `Group`.

        Returns
        -------
        Run
            The run.

        Raises
        ------
        TypeError
            If a fact is unknown or has the wrong type.
        ValueError
            If a fact is out of range.

        Examples
        --------
        >>> import hockeystick as hs
        >>> run = hs.Run(sampling="poisson", sample_rate=0.01, steps=100, noise_multiplier=1.0)
        >>> hs.Run.from_facts(run.facts) == run
        True
        """
        stated = dict(facts)
        if isinstance(stated.get("mechanism"), Mapping):
            stated["mechanism"] = mechanism_of(stated["mechanism"])
        if isinstance(stated.get("sampling"), Mapping):
            stated["sampling"] = participation_of(stated["sampling"])
        if isinstance(stated.get("group"), Mapping):
            stated["group"] = Group(**stated["group"])
        return Run(**stated)

    def __repr__(self) -> str:
        named = {name: getattr(self, name) for name in self.facts}
        return f"Run({', '.join(f'{name}={value!r}' for name, value in named.items())})"

    def __hash__(self) -> int:
        return hash(self.sha256)

    def _repr_html_(self) -> str:
        rows = [*self.facts.items(), ("sha256", self.sha256[:16])]
        return _html.table(rows, caption="Run", named=True)


_EXCLUSIVE = (
    (("steps",), ("epochs",)),
    (("noise_multiplier",), ("mechanism",)),
    (("sample_rate",), ("batch_size",)),
    (("group",), ("records_per_person",)),
)
"""Facts of which one takes the place of the other."""

_UNSTATED: dict[str, Any] = {"records_per_person": 1, "microbatches": 1}
"""What fields of a run are that it does not state."""
