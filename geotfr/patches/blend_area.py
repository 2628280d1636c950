"""Where the blocks of a blend lie, and which of their values take part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BlendArea", "valid_values"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlendArea:
    """The patch columns of a blend.

    Attributes
    ----------
    patch_yx, margin_yx
        (rows, columns) of a patch, and of the margin on each side of it.
    columns, kept
        The patch columns that will be laid down, and those to take out; ``columns`` holds the neighbours of ``kept``
        whose blocks reach into it.
    lag
        Patch row ``r`` is taken when row ``r + lag`` has been laid down: at least the patch rows that a margin reaches.
    """

    patch_yx: tuple[int, int]
    margin_yx: tuple[int, int]
    columns: range
    kept: range
    lag: int

    @property
    def block_yx(self) -> tuple[int, int]:
        """(rows, columns) of a block: the patch with its margins."""
        return self.patch_yx[0] + 2 * self.margin_yx[0], self.patch_yx[1] + 2 * self.margin_yx[1]

    @property
    def turns_yx(self) -> tuple[int, int]:
        """(rows, columns): blocks so many patches apart don't overlap.

        >>> BlendArea(patch_yx=(4, 4), margin_yx=(1, 3), columns=range(1), kept=range(1), lag=1).turns_yx
        (2, 3)
        """
        (height, width), (margin_y, margin_x) = self.patch_yx, self.margin_yx
        return 1 + -(-2 * margin_y // height), 1 + -(-2 * margin_x // width)


def valid_values(
    block: NDArray[Any], is_there: NDArray[np.bool_], nodata: float | None = None
) -> NDArray[np.bool_] | None:
    """Which values of ``block`` ``(block, ...)`` are predictions; None where all are.

    What isn't: NaN, ``nodata``, and the blocks that ``is_there`` ``(block,)`` denies.

    >>> valid_values(np.array([[1.0, 2.0], [np.nan, 3.0]]), np.array([True, True]), 2).tolist()
    [[True, False], [False, True]]
    """
    is_float = block.dtype.kind == "f"
    # The least of values with a NaN among them is NaN: one pass, and no array of the block's size.
    if nodata is None and is_there.all() and not (is_float and np.isnan(block.min())):
        return None
    valid: NDArray[np.bool_] = ~np.isnan(block) if is_float else np.ones(block.shape, np.bool_)
    if nodata is not None:
        valid &= block != nodata
    valid &= is_there.reshape(-1, *(1,) * (block.ndim - 1))
    return valid
