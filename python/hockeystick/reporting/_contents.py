"""The contents of a report."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hockeystick import Laplace, Poisson, Skellam, plot
from hockeystick._core import __version__
from hockeystick._guarantees.attacks import Attacks
from hockeystick._guarantees.comparison import (
    BOUNDS,
    INTERVAL_SOURCE,
    INTERVAL_STATUS,
    compared,
    enclosed,
    shuffled,
    sources,
    status,
)
from hockeystick._guarantees.guarantee import (
    AccountantGuarantee,
    ExactGuarantee,
    Guarantee,
    ShuffledGuarantee,
    TradeoffGuarantee,
    warnings_left_out,
)
from hockeystick._guarantees.proven import ProvenEnds
from hockeystick._guarantees.wording import ADVERSARY, CHANGED, NORMALISER, RELATIONS, disclosure
from hockeystick._rounding import percent_up, rounded_down, rounded_up
from hockeystick.accountants import IndividualAccountant
from hockeystick.plot._style import FALSE_POSITIVE_RATES, SQUARE
from hockeystick.reporting._certified import Proof, proven_in_words, section_of
from hockeystick.reporting._document import (
    Block,
    Code,
    Document,
    Paragraph,
    Picture,
    Points,
    Section,
    Table,
)
from hockeystick.reporting._officers import (
    limits,
    one_in,
    protected,
    protection,
    references,
    signature,
    verdict,
)
from hockeystick.reporting._plainly import assumed, technical, technical_draw, technical_noise
from hockeystick.reporting._reproducing import code_for
from hockeystick.tradeoff import TradeoffCurve

MAX_KINDS = 20
"""Most kinds of steps in a table."""

LARGE_EPSILON = 15.0
"""Above this a factor of exp(epsilon) means nothing to anybody."""

TITLE = "Privacy report"
"""Heading of a report that is given none."""

FORM = {"model": "model", "data set": "dataset", "responsible": "responsible", "date": "date"}
"""Rows of the form to sign, and the arguments of `report` that fill them."""

DELTAS = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
"""Deltas of the table of epsilons, besides the one of the guarantee."""


_NO_EPSILON = (
    "No finite epsilon is known to hold: with a probability above delta an outcome may give away who "
    "took part."
)

_OTHERS = (
    "An epsilon means what its assumptions say. These are the numbers for other ways of drawing batches and "
    "other neighbouring relations. If the training loop did not do what stands above, one of these may be "
    "the one that holds."
)


class Question(NamedTuple):
    """The checked arguments of a report."""

    source: Any
    guarantee: Guarantee
    delta: float
    group_sizes: tuple[int, ...]
    dataset_size: int | None
    target: float | None
    title: str
    details: Mapping[str, str]
    file_name: str
    pictures: bool
    proof: Proof | None = None
    """What an independent checker proved, where it was asked; `guarantee` is then the proven one."""
    form: Mapping[str, str] = {}
    """Fields of the form to sign with values: model, data set, responsible person and date, if given."""


class Facts(NamedTuple):
    """The guarantee and what it assumes, in words."""

    unit: str
    statement: str
    lower: float | None
    upper: float
    assumptions: dict[str, str]


def document_of(question: Question) -> Document:
    """Return the report, with everything computed but the pictures."""
    facts = facts_of(question)
    with warnings_left_out():
        sections = [
            *verdict(facts.upper, question.delta, question.target),
            Section("The guarantee in plain words", _plain_words(question, facts)),
            _protection(question, facts),
            limits(),
            signature({name: question.form.get(name, "") for name in FORM}),
            Section("What it assumes", [_assumed(question, facts), *_steps(question)]),
            Section("Records and groups", _groups(question)),
            Section("The same noise and steps under other assumptions", _schemes(question)),
            Section("Curves", _curves(question)),
            Section("For engineers: to be disclosed with the guarantee", _to_disclose(question, facts)),
            Section("For engineers: how epsilon was computed", [_table(technical(facts.assumptions))]),
            Section("For engineers: how to reproduce it", _reproduce(question)),
        ]
        if question.proof is not None:  # what fails stands in front of everything
            sections.insert(-4 if question.proof.verified else 0, section_of(question.proof))
        sections.append(references(sections))
    return Document(question.title, facts.statement, sections)


def facts_of(question: Question) -> Facts:
    """Return the guarantee of a report and what it assumes."""
    guarantee, delta = question.guarantee, question.delta
    lowers, uppers = guarantee.epsilons(np.array([delta]))
    lower, upper = (None if lowers is None else float(lowers[0])), float(uppers[0])
    size, run = guarantee.group_size, guarantee.run
    if isinstance(guarantee, TradeoffGuarantee):
        unit, change, relation = "the record or group that the curve is about", "", "add_remove"
    else:
        one = "any one example" if isinstance(question.source, IndividualAccountant) else "one record"
        unit = one if size == 1 else f"a group of {size} records"
        relation = "add_remove" if run is None else run.adjacency
        change = f" that {'is' if size == 1 else 'are'} {CHANGED[relation]}"
    who = protected(unit, size) + (
        f", whose records are {CHANGED[relation]}" if size > 1 and change else change
    )
    statement = (
        f"Differential privacy with epsilon = {rounded_up(upper)} and delta = {one_in(delta)} for {who}"
    )
    if not np.isfinite(upper):
        statement = f"No guarantee at delta = {one_in(delta)} for {who}"
    return Facts(unit, statement, lower, upper, _assumptions(question, unit, lower, upper))


def _assumptions(question: Question, unit: str, lower: float | None, upper: float) -> dict[str, str]:
    guarantee, run = question.guarantee, question.guarantee.run
    if run is None:
        curve: TradeoffCurve = question.source
        return {"trade-off function": repr(curve)[1:-1], "adversary": curve.adversary}
    what = "the dominating pair"
    words = {
        "mechanism": "; ".join(dict.fromkeys(technical_noise(noise) for noise, _, _ in run.segments)),
        "sampling": "; ".join(dict.fromkeys(technical_draw(draw) for _, draw, _ in run.segments)),
        "adjacency": RELATIONS[run.adjacency],
        "group": unit if run.group is None else f"{unit}: {run.group!r}",
        "steps": str(run.steps),
        "adversary": ADVERSARY,
    }
    if any(isinstance(noise, Laplace | Skellam) for noise, _, _ in run.segments):
        words["queries"] = "of one dimension, where noise is not Gaussian"
    if run.has_own_rates:
        words["sampling"] = "each member at its own rate"
        if any(isinstance(draw, Poisson) for _, draw, _ in run.segments):
            words["sampling"] += ", in several batches under one noise"
    if isinstance(guarantee, AccountantGuarantee):
        words.update({name: guarantee.description[name] for name in ("sampling", "adversary", "status")})
    elif isinstance(guarantee, ShuffledGuarantee):
        words |= {
            "status": INTERVAL_STATUS,
            "theorem": INTERVAL_SOURCE,
            "bound": "no amplification by sampling",
        }
        what = "the run"
    elif isinstance(guarantee, ExactGuarantee):
        words["status"], words["theorem"] = status(guarantee.curve), sources(guarantee.curve)
        used = str(guarantee.curve.bound_used(delta=question.delta))
        if used != "pair":
            words["bound"], what = BOUNDS[used], "this bound"
    by = "certified"
    if question.proof is not None and isinstance(guarantee, ProvenEnds):
        words |= proven_in_words(question.proof, guarantee)
        by = "proven by an independent checker"
    if lower is not None:
        words["certified"] = f"{rounded_down(lower)} and {rounded_up(upper)}, for {what}; this is {by}"
    return words


def _plain_words(question: Question, facts: Facts) -> list[Block]:
    delta = question.delta
    if not np.isfinite(facts.upper):
        return [Paragraph(_NO_EPSILON)]
    who = _whose(question, facts)
    items = [_likelihoods(question, facts)]
    attacks = _attacks(question.guarantee)
    if attacks is not None:
        right = _right_at_even_odds(question.guarantee)
        found = _found(attacks, 0.01)
        items += [
            f"Somebody who must decide whether {who}{_instead(question)} took part, with nothing else to go "
            f"by than even odds, is right in at most {right} of all cases. Guessing is right in 50 %.",
            "An attack that raises a false alarm in 1 % of the cases finds at most "
            f"{found} of those who took part.",
        ]
    items.append("This holds for every attack, whatever its computing power and its knowledge of other data.")
    if isinstance(question.source, IndividualAccountant):
        items.append(
            "These numbers hold for every example, whatever its gradients were. The epsilons of single "
            "examples are private data: they are not in this report, nor is anything that depends on them."
        )
    size = question.dataset_size
    if size is not None and delta * size >= 1.0:
        items.append(
            f"Note: delta should be well below one over the number of records, 1 in {size:,}. "
            f"A delta of {one_in(delta)} allows to publish some records as they are."
        )
    return [Points(tuple(items))]


def _instead(question: Question) -> str:
    run = question.guarantee.run
    return " or others in their place" if run is not None and run.adjacency == "replace" else ""


def _whose(question: Question, facts: Facts) -> str:
    """Return the unit in the words of a sentence about a person."""
    size = question.guarantee.group_size
    is_group = size > 1 and not isinstance(question.guarantee, TradeoffGuarantee)
    return f"the {size} records of a person" if is_group else facts.unit


def _likelihoods(question: Question, facts: Facts) -> str:
    """Say what (epsilon, delta) means."""
    who, epsilon = _whose(question, facts), facts.upper
    if epsilon > LARGE_EPSILON:
        return f"Epsilon is {rounded_up(epsilon)}: too large to promise anything of use about {who}."
    factor = f"{_in_full(float(np.exp(epsilon)))} times as likely"
    apart = f"up to a probability of {one_in(question.delta)}"
    relation = "add_remove" if question.guarantee.run is None else question.guarantee.run.adjacency
    if relation == "remove":
        return f"No outcome is more than {factor} with {who} in the data as without, {apart}."
    if relation == "add":
        return f"No outcome is more than {factor} without {who} in the data as with, {apart}."
    others = {"replace": "others in the place of", "zero_out": "zeros for the gradients of"}
    other = others.get(relation, "without")
    return (
        f"Compare training on the data with training on the data {other} {who}. No outcome that somebody "
        f"might look for is more than {factor} in one case as in the other, {apart}."
    )


def _in_full(factor: float) -> str:
    """Return a factor rounded up to three digits, without an exponent: 149,000 in place of 1.49e+05."""
    rounded = float(rounded_up(factor, 3))
    return f"{rounded:,.0f}" if rounded >= 1000.0 else rounded_up(factor, 3)


def _steps(question: Question) -> list[Block]:
    run = question.guarantee.run
    if run is None or len(run.segments) < 2:
        return []
    own = isinstance(question.guarantee, AccountantGuarantee) or run.has_own_rates
    rows = tuple(
        (technical_noise(noise), "as above" if own else technical_draw(draw), str(count))
        for noise, draw, count in run.segments[:MAX_KINDS]
    )
    blocks: list[Block] = [Table(("noise", "sampling", "steps"), rows)]
    if len(run.segments) > MAX_KINDS:
        blocks.append(Paragraph(f"and {len(run.segments) - MAX_KINDS} further segments"))
    return blocks


def _groups(question: Question) -> list[Block]:
    guarantee, delta = question.guarantee, question.delta
    if isinstance(guarantee, TradeoffGuarantee) and question.group_sizes == (1,):
        return []
    rows, drawn = [], []
    for size in question.group_sizes:
        try:
            one = guarantee.for_group(size)
            epsilon = one.epsilon(delta)
        except ValueError as refusal:  # a size that the run or the accountant does not cover
            rows.append((str(size), "not covered", str(refusal).partition(":")[0]))
            continue
        drawn.append((size, epsilon))
        rows.append((str(size), rounded_up(epsilon), _right_at_even_odds(one)))
    header = ("records", f"epsilon at delta = {one_in(delta)}", "attack right at even odds, at most")
    if isinstance(guarantee, TradeoffGuarantee):
        header = ("times as many records", *header[1:])
    blocks: list[Block] = [Table(header, tuple(rows))]
    if isinstance(guarantee, TradeoffGuarantee):
        blocks.append(Paragraph("These follow from the curve alone; what is exact for the run is smaller."))
    elif guarantee.run is not None and guarantee.run.group is not None:
        blocks.append(
            Paragraph("The members of this group differ: of groups of other sizes nothing is known.")
        )
    sizes = [size for size, epsilon in drawn if np.isfinite(epsilon)]
    if len(sizes) >= 2:
        words = f"Epsilon at delta = {one_in(delta)} against the number of records that change together"
        blocks.append(
            Picture(
                lambda ax: plot.epsilon_by_group_size(guarantee.quick(), delta, group_sizes=sizes, ax=ax),
                words,
            )
        )
    return blocks


def _schemes(question: Question) -> list[Block]:
    guarantee, delta, size = question.guarantee, question.delta, question.dataset_size
    if guarantee.run is None or any(isinstance(noise, Skellam) for noise, _, _ in guarantee.run.segments):
        return []
    if getattr(question.source, "clipping", "individual") != "individual":
        return []  # batches that are clipped as one move by less: other noise for the same epsilon
    asked = (guarantee.run, delta, size, guarantee.proven(delta))
    entries = compared(*asked)
    others = (enclosed(*asked), shuffled(guarantee.run, delta, size))
    entries += [other for other in others if other is not None]
    rows = [(entry.scheme, entry.shown, entry.note) for entry in entries]
    words = f"Epsilon at delta = {one_in(delta)} if batches were drawn in another way"
    return [
        Paragraph(_OTHERS),
        Table(("scheme", "epsilon", "note"), tuple(rows)),
        Picture(lambda ax: plot.schemes(guarantee, delta, dataset_size=size, ax=ax), words),
    ]


def _curves(question: Question) -> list[Block]:
    guarantee, delta = question.guarantee.quick(), question.delta
    deltas = np.unique([*DELTAS, delta])[::-1]
    _, uppers = guarantee.epsilons(deltas)
    both = zip(deltas.tolist(), uppers.tolist(), strict=True)
    rows = tuple((one_in(level), rounded_up(upper)) for level, upper in both)
    blocks: list[Block] = [Table(("delta", "epsilon"), rows)]
    attacks = _attacks(question.guarantee)
    if attacks is not None:
        found = ((f"{100 * rate:g} %", _found(attacks, rate)) for rate in FALSE_POSITIVE_RATES)
        blocks.append(Table(("false alarms of an attack", "members that it finds, at most"), tuple(found)))
        most = percent_up(attacks.advantage)
        rates = f"Error rates of attacks: none is below the line, and no advantage is above {most}"
        blocks.append(Picture(lambda ax: plot.tradeoff_curve(guarantee, ax=ax), rates, SQUARE))
    if not np.all(np.isfinite(uppers)):
        return blocks
    words = f"Delta against epsilon; the mark is the guarantee at delta = {one_in(delta)}"
    blocks.append(Picture(lambda ax: plot.privacy_curve(guarantee, delta=delta, ax=ax), words))
    if guarantee.run is not None and guarantee.in_order:
        target = question.target
        spent = f"Epsilon at delta = {one_in(delta)} as the steps went on"
        blocks.append(Picture(lambda ax: plot.budget(guarantee, delta, target=target, ax=ax), spent))
    return blocks


def _to_disclose(question: Question, facts: Facts) -> list[Block]:
    run = question.guarantee.run
    blocks: list[Block] = []
    settings = {"delta": one_in(question.delta)}
    if run is None:
        settings["trade-off function"] = facts.assumptions["trade-off function"]
    else:
        settings["noise"] = facts.assumptions["mechanism"]
        settings["sampling"] = facts.assumptions["sampling"]
        settings["steps"] = facts.assumptions["steps"]
    if question.dataset_size is not None:
        settings["records"] = str(question.dataset_size)
    if isinstance(question.source, IndividualAccountant):
        settings["clipping norm"] = f"{question.source.max_grad_norm:g}"
    settings.update(question.details)
    blocks.append(_table(settings, ("hyper-parameter", "value")))
    if run is not None:
        words = {**facts.assumptions, "statement": facts.statement}
        if isinstance(question.guarantee, AccountantGuarantee):
            name = type(question.source).__name__
            words["theorem"] = f"accounted for by {name}"
            words["accounting"] = f"{name}: {words['status']} (hockeystick {__version__})"
        if isinstance(question.guarantee, ShuffledGuarantee) and "accounting" not in words:
            words["accounting"] = f"certified interval for shuffled batches (hockeystick {__version__})"
        asked = disclosure(words, facts.unit) | _without_requests(facts)
        blocks += [
            Paragraph("What Ponomareva et al. 2023, How to DP-fy ML, section 5.3.3, ask for:"),
            _table(asked),
        ]
    return blocks


def _without_requests(facts: Facts) -> dict[str, str]:
    """Return the entries that ask engineers for something elsewhere, as a finished document says them."""
    same_size = facts.assumptions["adjacency"] in (RELATIONS["replace"], RELATIONS["zero_out"])
    return {
        "data accesses covered": f"the {facts.assumptions['steps']} steps of training alone",
        "accounting assumptions": f"{facts.assumptions['sampling']}; {facts.assumptions['mechanism']}; "
        "contributions of norm at most the clipping norm" + ("" if same_size else f"; {NORMALISER}"),
        "verifiability": "the code below gives the same numbers",
    }


def _assumed(question: Question, facts: Facts) -> Table:
    return _table(assumed(question.source, question.guarantee, facts.assumptions, (facts.lower, facts.upper)))


def _protection(question: Question, facts: Facts) -> Section:
    """Return who is protected, and epsilon for the next larger number of records."""
    if not np.isfinite(facts.upper):
        return Section("Who is protected, and who is not", [Paragraph("Nobody is protected by this run.")])
    size = question.guarantee.group_size
    larger = next((k for k in question.group_sizes if k > size), None)
    known = None
    if larger is not None and not isinstance(question.guarantee, TradeoffGuarantee):
        try:
            known = (larger, rounded_up(question.guarantee.for_group(larger).epsilon(question.delta)))
        except ValueError:  # a size that the run or the accountant does not cover
            known = None
    return protection(protected(facts.unit, size), size, known)


def _reproduce(question: Question) -> list[Block]:
    name, lines = code_for(question.source)
    arguments = [name, repr(question.file_name)]
    arguments += [f"{key}={value!r}" for key, value in _options(question).items()]
    asked = f"{name}.epsilon" if name == "curve" else f"{name}.get_epsilon"
    printed = [f"print({asked}({question.delta!r}))"] if question.proof is None else []
    code = "\n".join(("import hockeystick as hs", "", lines, *printed, f"hs.report({', '.join(arguments)})"))
    versions = {"hockeystick": __version__, "NumPy": np.__version__, "Python": platform.python_version()}
    return [Code(code), _table(versions, ("made with", "version"))]


def _options(question: Question) -> dict[str, object]:
    """Return the keyword arguments of `report` that change the file; those at their defaults are left out."""
    options: dict[str, object] = {"delta": question.delta, "group_sizes": question.group_sizes}
    if question.dataset_size is not None:
        options["dataset_size"] = question.dataset_size
    if question.target is not None:
        options["target"] = question.target
    if question.title != TITLE:
        options["title"] = question.title
    if question.details:
        options["details"] = dict(question.details)
    if not question.pictures:
        options["pictures"] = False
    if question.proof is not None:
        options["certified"] = True
    options.update({FORM[name]: text for name, text in question.form.items()})
    return options


def _attacks(guarantee: Guarantee) -> Attacks | None:
    """Return what attacks can do, or None where no exact curve is known."""
    try:
        return guarantee.attacks()
    except ValueError:  # Rényi bounds for noise without an exact curve
        return None


def _right_at_even_odds(guarantee: Guarantee) -> str:
    """Probability to be right about a fair coin, at most; in words where it is not known."""
    try:
        return percent_up(0.5 + 0.5 * guarantee.advantage())
    except ValueError:  # Rényi bounds for noise without an exact curve
        return "not covered"


def _found(attacks: Attacks, rate: float) -> str:
    """Share of members that an attack with a false positive rate finds at most."""
    return percent_up(1.0 - float(attacks.false_negative_rates(np.array([rate]))[0]))


def _table(words: Mapping[str, str], header: tuple[str, ...] = ()) -> Table:
    return Table(header, tuple((name, text) for name, text in words.items()))
