"""From planes to features: which bands make which feature, of which kind, in which order.

A *plane* is one (row, col) array that a source reads: a scalar band, or one element of an array band. A *feature* is
what a record holds under one name: one plane, the planes of an array band up to its depth, or with ``collapse`` all of
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.patches.cut import clamped_fill

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["BandSpec", "FeatureSpec", "band_kind", "feature_specs", "validity_feature"]

_KINDS = ("bytes", "int64", "float")
"""In the order of promotion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandSpec:
    """A band of the source: its ``name`` and its planes.

    Attributes
    ----------
    name
        The feature's name.
    planes
        Numbers of its planes.
    is_array
        Whether it is an array band; a scalar band has one plane.
    is_label
        Whether its values are labels, which mask nothing.
    fill
        What its masked pixels hold; None: the export's default value.
    """

    name: str
    planes: range
    is_array: bool
    is_label: bool = False
    fill: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureSpec:
    """One feature of the records.

    Attributes
    ----------
    name
        Its key.
    kind
        ``bytes``, ``int64`` or ``float``.
    depth
        Channels of a tensor, None for a scalar band.
    planes
        The plane of each channel; None for one that no pixel has.
    fills
        What each channel holds where it is masked.
    is_validity
        Whether it has no plane, but holds 1 where a pixel is valid and 0 where it is masked.
    """

    name: str
    kind: str
    depth: int | None
    planes: tuple[int | None, ...]
    fills: tuple[float, ...]
    is_validity: bool = False


def validity_feature(name: str) -> FeatureSpec:
    """The feature that tells which pixels are valid: a byte for each, whatever kinds the bands have."""
    return FeatureSpec(name=name, kind="bytes", depth=None, planes=(None,), fills=(0,), is_validity=True)


def band_kind(dtype: np.dtype[Any], feature_kinds: str) -> str:
    """The kind of list for a band of ``dtype``.

    ``float``: always float, as Earth Engine's guide says. ``native``: uint8 as bytes, other integers as int64, floats
    as float, as its exports are.

    >>> [band_kind(np.dtype(t), "native") for t in ("uint8", "int8", "float32")]
    ['bytes', 'int64', 'float']
    """
    if feature_kinds == "float" or dtype.kind == "f":
        return "float"
    return "bytes" if dtype == np.uint8 else "int64"


def feature_specs(
    bands: Sequence[BandSpec],
    dtypes: Sequence[np.dtype[Any]],
    *,
    tensor_depths: Mapping[str, int],
    collapse: bool,
    feature_kinds: str,
    default_value: float,
) -> tuple[FeatureSpec, ...]:
    """The features that ``bands`` make; ``dtypes`` are the planes' types.

    Raises
    ------
    UsageError
        An array band without a depth, or a depth for a band that is no array.
    """
    _check_depths(bands, tensor_depths)
    # Collapsing promotes to the furthest of the bands' own kinds, whatever the kinds are else.
    kinds = "native" if collapse else feature_kinds
    features = [_feature(band, dtypes, tensor_depths.get(band.name), kinds, default_value) for band in bands]
    if not collapse:
        return tuple(features)
    planes = tuple(plane for feature in features for plane in feature.planes)
    return (
        FeatureSpec(
            name=features[0].name,
            kind=max((feature.kind for feature in features), key=_KINDS.index),
            depth=len(planes),
            planes=planes,
            fills=tuple(fill for feature in features for fill in feature.fills),
        ),
    )


def _feature(
    band: BandSpec, dtypes: Sequence[np.dtype[Any]], depth: int | None, feature_kinds: str, default_value: float
) -> FeatureSpec:
    default_value = default_value if band.fill is None else band.fill
    elements = tuple(band.planes)[:depth]
    missing = (depth or 1) - len(elements)
    fills = [clamped_fill(default_value, dtypes[plane]) for plane in elements]
    fills += [clamped_fill(default_value, dtypes[band.planes[0]])] * missing
    kinds = {band_kind(dtypes[plane], feature_kinds) for plane in band.planes}
    return FeatureSpec(
        name=band.name,
        kind=max(kinds, key=_KINDS.index),
        depth=depth,
        planes=(*elements, *[None] * missing),
        fills=tuple(fills),
    )


def _check_depths(bands: Sequence[BandSpec], tensor_depths: Mapping[str, int]) -> None:
    arrays = [band.name for band in bands if band.is_array]
    for name in arrays:
        if name not in tensor_depths:
            raise UsageError(f"tensor_depths: array band {name!r} has no depth; give --tensor-depths {name}=N")
    for name in tensor_depths:
        if name not in arrays:
            is_scalar = any(band.name == name for band in bands)
            raise UsageError(
                f"tensor_depths: {name!r} is {'a scalar band' if is_scalar else 'no band'}; array bands are"
                f" {', '.join(arrays) or 'none (--array-band makes them)'}"
            )
