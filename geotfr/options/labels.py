"""What an export asks of its labels: vectors burnt as a band, or a raster of classes."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as option
from pathlib import PurePath
from typing import Any, TypedDict

from geotfr.errors import UsageError
from geotfr.flags import checked_flags
from geotfr.options.scope import BYTES, FILES
from geotfr.options.values import texts
from geotfr.stores.path import local_text

__all__ = ["LABEL_FEATURES", "LabelKeywords", "LabelOptions", "label_options"]

LABEL_FEATURES = ("boxes", "polygons")
"""What records can tell of the shapes in them."""

_LEAST, _MOST = -(2**31), 2**32 - 1


class LabelKeywords(TypedDict, total=False):
    """The keywords that make :class:`LabelOptions`."""

    labels: Any
    label_field: str | None
    label_name: str | None
    label_classes: Mapping[str, int] | str | None
    label_priority: Sequence[str] | str | None
    label_background: int | None
    label_ignore: int | None
    label_all_touched: bool
    label_instances: str | None
    label_layer: str | None
    label_where: str | None
    label_crs: str | None
    label_features: str | None
    label_allow_empty: bool
    coco: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """The labels of an export.

    Attributes
    ----------
    source
        A vector file or a frame of geopandas, or a raster of classes on any grid (``FILE`` or ``FILE:BAND``).
    field
        The column with the classes: whole numbers, booleans or text. None: every shape is class 1.
    name
        The feature; None: the field's name, or ``label``.
    classes
        (class, value) pairs; None: numbers as they are, texts 1, 2, … in the order of their code points.
    priority
        Classes, the most important first: where shapes overlap, it wins. Others come below them, in the order of
        the file, the later one above.
    background
        The value where no shape is.
    ignore
        The value of masked pixels, and of shapes without a class, or whose class isn't among ``classes``. None: such
        shapes are left out, and masked pixels hold the export's default value.
    all_touched
        Burn all pixels that a shape touches, not only those whose centre is inside.
    instances
        Name of a second feature, with the number of the shape (its row in the source, from 1) of each pixel; or None.
    layer, where, crs
        Which rows of the source, and the CRS of its shapes in place of its own.
    features
        ``boxes`` or ``polygons``: records also hold the shapes in their blocks, see
        :mod:`geotfr.pipeline.export.object_features`; None: they don't.
    allow_empty
        Take a grid on which no shape lies: all of it is background. Without it that is an error, as of a wrong CRS.
    coco
        Also write ``PREFIX-coco.json``: boxes and outlines of the shapes in each patch.
    """

    source: Any = option(metadata=FILES)
    field: str | None = option(default=None, metadata=BYTES)
    name: str | None = option(default=None, metadata=BYTES)
    classes: tuple[tuple[str, int], ...] | None = option(default=None, metadata=BYTES)
    priority: tuple[str, ...] = option(default=(), metadata=BYTES)
    background: int = option(default=0, metadata=BYTES)
    ignore: int | None = option(default=None, metadata=BYTES)
    all_touched: bool = option(default=False, metadata=BYTES)
    instances: str | None = option(default=None, metadata=BYTES)
    layer: str | None = option(default=None, metadata=BYTES)
    where: str | None = option(default=None, metadata=BYTES)
    crs: str | None = option(default=None, metadata=BYTES)
    features: str | None = option(default=None, metadata=BYTES)
    allow_empty: bool = option(default=False, metadata=BYTES)
    coco: bool = option(default=False, metadata=BYTES)

    @property
    def path(self) -> str | None:
        """The source's path; None for a frame."""
        return local_text(os.fspath(self.source)) if isinstance(self.source, str | os.PathLike) else None

    @property
    def band(self) -> str:
        """Name of the label band."""
        return self.name or self.field or "label"

    def as_used(self) -> dict[str, Any]:
        """The options that decide the records, in JSON types, without folders."""
        return {
            "source": None if self.path is None else PurePath(self.path).name,
            "field": self.field,
            "name": self.band,
            "classes": None if self.classes is None else dict(self.classes),
            "priority": list(self.priority),
            "background": self.background,
            "ignore": self.ignore,
            "all_touched": self.all_touched,
            "instances": self.instances,
            "layer": self.layer,
            "where": self.where,
            "crs": self.crs,
            "features": self.features,
            "coco": self.coco,
        }


def label_options(given: Mapping[str, Any]) -> LabelOptions | None:
    """The labels that the keywords ``given`` ask for; None for none.

    Raises
    ------
    UsageError
        Options of labels without labels, a value that is out of range, or names that clash.

    >>> label_options({"labels": "fields.gpkg", "label_field": "crop", "label_classes": "wheat=1,maize=2"}).classes
    (('wheat', 1), ('maize', 2))
    """
    # 0 is a value.
    found = {name: given[name] for name in LabelKeywords.__annotations__ if given.get(name) is not None}
    found = {name: value for name, value in checked_flags(LabelKeywords, found).items() if value is not False}
    if "labels" not in found:
        if found:
            option = next(iter(found)).replace("_", "-")
            raise UsageError(f"--{option}: there are no labels; name them with --labels")
        return None
    classes = _classes(found.get("label_classes"))
    options = LabelOptions(
        source=found["labels"],
        field=found.get("label_field"),
        name=found.get("label_name"),
        classes=classes,
        priority=_priority(found.get("label_priority"), classes),
        background=_value("label_background", found.get("label_background", 0)),
        ignore=None if "label_ignore" not in found else _value("label_ignore", found["label_ignore"]),
        all_touched=found.get("label_all_touched", False),
        instances=found.get("label_instances"),
        layer=found.get("label_layer"),
        where=found.get("label_where"),
        crs=found.get("label_crs"),
        features=_features(found.get("label_features")),
        allow_empty=found.get("label_allow_empty", False),
        coco=found.get("coco", False),
    )
    if options.instances == options.band:
        raise UsageError(f"--label-instances {options.instances}: the label band has that name; give another")
    if options.field is None and (options.classes is not None or options.priority):
        raise UsageError("--label-classes, --label-priority: name the column of the classes with --label-field")
    if options.ignore is not None and options.ignore == options.background:
        raise UsageError(f"--label-ignore {options.ignore}: the background has that value; give another")
    return options


def _value(option: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not _LEAST <= value <= _MOST:
        raise UsageError(f"{option}: found {value!r}; allowed is a whole number from {_LEAST} to {_MOST}")
    return value


def _features(given: Any) -> str | None:
    if given is None or given in LABEL_FEATURES:
        return None if given is None else str(given)
    raise UsageError(f"label_features: found {given!r}; allowed are {' and '.join(LABEL_FEATURES)}")


def _classes(given: Mapping[str, int] | str | None) -> tuple[tuple[str, int], ...] | None:
    if given is None:
        return None
    # A name may hold '=', its value can't.
    texts_of = [part.rpartition("=") for part in given.split(",")] if isinstance(given, str) else []
    pairs: list[tuple[str, Any]] = [(name.strip(), text.strip()) for name, _, text in texts_of]
    if not isinstance(given, str):
        pairs = [(str(name), value) for name, value in given.items()]
    found: dict[str, int] = {}
    for name, value in pairs:
        if not name or not re.fullmatch(r"[-+]?[0-9]{1,11}", str(value)):
            raise UsageError(f"label_classes: found {name}={value}; allowed are CLASS=NUMBER, as water=1,forest=2")
        if name in found:
            raise UsageError(f"label_classes: class {name!r} is given twice")
        found[name] = _value("label_classes", int(value))
    return tuple(found.items())


def _priority(given: Sequence[str] | str | None, classes: tuple[tuple[str, int], ...] | None) -> tuple[str, ...]:
    names = tuple(part.strip() for part in given.split(",")) if isinstance(given, str) else texts(given)
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"label_priority: class {name!r} is given twice")
        if classes is not None and name not in dict(classes):
            raise UsageError(f"label_priority: class {name!r} is not among label_classes")
    return names
