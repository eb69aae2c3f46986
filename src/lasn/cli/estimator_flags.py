"""Flags for the parameters of the estimators, made of their signatures and docstrings.

Help, documentation and code are one text: a flag's name and default come from the constructor, its
explanation from the numpydoc section, its check from :mod:`lasn.parameters`.
"""

from __future__ import annotations

import argparse
import inspect
import re
from importlib import import_module
from typing import Any

from lasn.cli.errors import UsageError

# Standing for what a person did not type: the estimator's own default holds.
_NOT_GIVEN = object()
# What the command line does in other ways: --resume, --checkpoint, and --log.
_LEFT_OUT = {"warm_start", "verbose", "checkpoint", "resume"}
# A line that names parameters: one with its kind, or several that another class explains.
_DOC = re.compile(r"^(\w+(?:, \w+)*) :(?: (.+))?$")
_ELSEWHERE = re.compile(r"As for :class:`(\w+)`")
# What a docstring says beside what can be typed.
_NOT_TYPED = re.compile(r" or callable| or array|, callable|, splitter or iterable|:class:")


def estimator_classes() -> dict[str, type]:
    """What each task trains."""
    from lasn import LASNClassifier, LASNRegressor

    return {"classify": LASNClassifier, "regress": LASNRegressor}


def tuned_classes() -> dict[str, type]:
    """What each task tunes."""
    from lasn import LASNClassifierCV, LASNRegressorCV

    return {"classify": LASNClassifierCV, "regress": LASNRegressorCV}


def add_estimator_flags(parser: argparse.ArgumentParser, by_task: dict[str, type]) -> None:
    """One flag a parameter, of the classifier and the regressor together."""
    classes = list(by_task.values())
    group = parser.add_argument_group(
        "parameters of the model", "those of " + " and ".join(f"lasn.{c.__name__}" for c in classes)
    )
    docs = {**parameter_docs(classes[1]), **parameter_docs(classes[0])}
    owners = {name: [c for c in classes if name in _parameters(c)] for name in docs}
    for name, (kind, text) in docs.items():
        if name in _LEFT_OUT:
            continue
        only = "" if len(owners[name]) == len(classes) else f" ({owners[name][0].__name__} only)"
        words = f"{_NOT_TYPED.sub('', kind)}. {_NOT_TYPED.sub('', text)}{only}"
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            default=_NOT_GIVEN,
            help=words.replace("`", "").replace("%", "%%"),
            **_how_it_is_typed(name, kind),
        )


def _how_it_is_typed(name: str, kind: str) -> dict[str, Any]:
    if kind.startswith("bool"):
        return {"action": "store_true"}
    if name == "class_weight":
        return {"metavar": "VALUE", "type": _class_weight}
    if "array of" in kind or "sequence of" in kind:
        return {"metavar": "VALUE,...", "type": _values}
    return {"metavar": "VALUE", "type": _value}


def given_parameters(arguments: argparse.Namespace, classes: dict[str, type]) -> dict[str, Any]:
    """The parameters that were typed."""
    names = {name for one in classes.values() for name in _parameters(one)} - _LEFT_OUT
    given = {name: getattr(arguments, name, _NOT_GIVEN) for name in sorted(names)}
    return {name: value for name, value in given.items() if value is not _NOT_GIVEN}


def make_estimator(classes: dict[str, type], task: str, given: dict[str, Any]):
    """The estimator for ``classify`` or ``regress``, its parameters checked."""
    estimator: Any = classes[task]()
    for name in given:
        if name not in _parameters(type(estimator)):
            raise UsageError(
                f"--{name.replace('_', '-')} is no parameter of {type(estimator).__name__}, "
                f"the estimator of --task {task}."
            )
    estimator.set_params(**given)
    try:
        estimator._check_parameters()
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    seed = estimator.random_state
    if seed is not None and not (isinstance(seed, int) and 0 <= seed < 2**32):
        raise UsageError(f"--random-state {seed!r} is not a whole number from 0 to 2^32 - 1.")
    if "cv" in _parameters(type(estimator)):
        _check_search(estimator)
    return estimator


def _check_search(estimator) -> None:
    """What the estimator itself would only say once the rows are there."""
    from sklearn.metrics import get_scorer

    if type(estimator.cv) is not int or estimator.cv < 2:
        raise UsageError(f"--cv {estimator.cv} is not a whole number, 2 or more.")
    if estimator.scoring is not None:
        try:
            get_scorer(estimator.scoring)
        except (ValueError, TypeError) as error:
            raise UsageError(
                f"--scoring {estimator.scoring} is no scorer of scikit-learn; accuracy, "
                "balanced_accuracy, f1, roc_auc, r2 and neg_mean_absolute_error are some."
            ) from error


def parameter_docs(estimator: type) -> dict[str, tuple[str, str]]:
    """Type and explanation of each parameter, from the class's numpydoc docstring.

    Where that says "As for" another class, from there.

    Examples
    --------
    >>> from lasn import LASNClassifier
    >>> from lasn.cli.estimator_flags import parameter_docs
    >>> parameter_docs(LASNClassifier)["C"]
    ('float, default=10.0', 'Weight of the losses against the regularisation.')
    """
    section = inspect.cleandoc(estimator.__doc__ or "").split("Parameters\n----------\n")[1]
    section = section.split("\n\n")[0]
    entries: list[tuple[list[str], str, list[str]]] = []
    for line in section.splitlines():
        match = _DOC.match(line)
        if match:
            entries.append((match[1].split(", "), match[2] or "", []))
        else:
            entries[-1][2].append(line.strip())
    docs: dict[str, tuple[str, str]] = {}
    for names, kind, lines in entries:
        elsewhere = _ELSEWHERE.match(lines[0]) if lines else None
        if elsewhere is not None:
            known = parameter_docs(getattr(import_module("lasn"), elsewhere[1]))
            docs.update({name: known[name] for name in names})
        else:
            docs.update({name: (kind, " ".join(lines)) for name in names})
    return docs


def _parameters(estimator: type) -> list[str]:
    return list(inspect.signature(estimator).parameters)


def _value(text: str) -> Any:
    """A typed word as Python has it: a number, None, or text."""
    if text == "None":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _values(text: str) -> Any:
    """One value, or several with commas between them."""
    values = [_value(part.strip()) for part in text.split(",")]
    return values if len(values) > 1 else values[0]


def _class_weight(text: str) -> Any:
    """``balanced``, ``None``, or weights of classes such as ``yes=2,no=0.5``."""
    if "=" not in text:
        return _value(text)
    pairs = (part.partition("=") for part in text.split(","))
    return {_value(label.strip()): _value(weight.strip()) for label, _, weight in pairs}
