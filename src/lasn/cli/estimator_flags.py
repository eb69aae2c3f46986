"""Flags for the parameters of the estimators, made of their signatures and docstrings.

Help, documentation and code are one text: a flag's name and default come from the constructor, its
explanation from the numpydoc section, its check from :mod:`lasn.parameters`.
"""

from __future__ import annotations

import argparse
import inspect
import re
from typing import Any

from lasn.cli.errors import UsageError

# Standing for what a person did not type: the estimator's own default holds.
_NOT_GIVEN = object()
# What the command line does in other ways: --resume, and --log.
_LEFT_OUT = {"warm_start", "verbose"}
_DOC = re.compile(r"^(\w+) : (.+)$")


def estimator_classes() -> dict[str, type]:
    from lasn.estimators import LASNClassifier, LASNRegressor

    return {"classify": LASNClassifier, "regress": LASNRegressor}


def add_estimator_flags(parser: argparse.ArgumentParser) -> None:
    """One flag a parameter, of the classifier and the regressor together."""
    group = parser.add_argument_group(
        "parameters of the model", "those of lasn.LASNClassifier and lasn.LASNRegressor"
    )
    classes = list(estimator_classes().values())
    docs = {**parameter_docs(classes[1]), **parameter_docs(classes[0])}
    owners = {name: [c for c in classes if name in _parameters(c)] for name in docs}
    for name, (kind, text) in docs.items():
        if name in _LEFT_OUT:
            continue
        only = "" if len(owners[name]) == len(classes) else f" ({owners[name][0].__name__} only)"
        group.add_argument(
            f"--{name.replace('_', '-')}",
            dest=name,
            default=_NOT_GIVEN,
            metavar="VALUE",
            type=_class_weight if name == "class_weight" else _value,
            help=f"{kind.replace(' or callable', '').replace(' or array', '')}. {text}{only}"
            .replace("``", "").replace("%", "%%"),
        )  # fmt: skip


def given_parameters(arguments: argparse.Namespace) -> dict[str, Any]:
    """The parameters that were typed."""
    names = {name for one in estimator_classes().values() for name in _parameters(one)}
    given = {name: getattr(arguments, name, _NOT_GIVEN) for name in sorted(names)}
    return {name: value for name, value in given.items() if value is not _NOT_GIVEN}


def make_estimator(task: str, given: dict[str, Any]):
    """The estimator for ``classify`` or ``regress``, its parameters checked."""
    from lasn.parameters import check_parameters

    estimator = estimator_classes()[task]()
    for name in given:
        if name not in _parameters(type(estimator)):
            raise UsageError(
                f"--{name.replace('_', '-')} is no parameter of {type(estimator).__name__}, "
                f"which --task {task} trains."
            )
    estimator.set_params(**given)
    try:
        check_parameters(estimator)
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error
    if not isinstance(estimator.random_state, (int, type(None))):
        raise UsageError(f"--random-state {estimator.random_state!r} is not a whole number.")
    return estimator


def parameter_docs(estimator: type) -> dict[str, tuple[str, str]]:
    """Type and explanation of each parameter, from the class's numpydoc docstring.

    Examples
    --------
    >>> from lasn import LASNClassifier
    >>> from lasn.cli.estimator_flags import parameter_docs
    >>> parameter_docs(LASNClassifier)["C"]
    ('float, default=10.0', 'Weight of the losses against the regularisation.')
    """
    section = inspect.cleandoc(estimator.__doc__ or "").split("Parameters\n----------\n")[1]
    section = section.split("\n\n")[0]
    docs: dict[str, tuple[str, str]] = {}
    for line in section.splitlines():
        match = _DOC.match(line)
        if match:
            name = match[1]
            docs[name] = (match[2], "")
        else:
            kind, text = docs[name]
            docs[name] = (kind, f"{text} {line.strip()}".strip())
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


def _class_weight(text: str) -> Any:
    """``balanced``, ``None``, or weights of classes such as ``yes=2,no=0.5``."""
    if "=" not in text:
        return _value(text)
    pairs = (part.partition("=") for part in text.split(","))
    return {_value(label.strip()): _value(weight.strip()) for label, _, weight in pairs}
