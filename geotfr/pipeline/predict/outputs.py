"""What a model returns, as named arrays that records can hold; anything else is refused in one line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.patches.readings import Reading

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OutputForm", "named_outputs"]

_INT64_MAX = 2**63 - 1


def named_outputs(
    returned: Any, name: str, where: str
) -> tuple[dict[str, NDArray[Any]], dict[str, np.dtype[Any]], int]:
    """The arrays of what a model returned, of uint8, int64 or float32, as in records; the types of a raster of them;
    and how many values became infinite.

    A raster holds whole numbers in the type that the model gave, uint64 as int64, booleans as uint8, and numbers of
    float16, bfloat16 and float64 as float32.

    Parameters
    ----------
    returned
        An array, or a tensor of PyTorch or TensorFlow, or a mapping of name to such, or a list of one.
    name
        What a single array is called.
    where
        The batch, for messages.

    Raises
    ------
    UsageError
        No array, or one of a type that no record holds.

    Examples
    --------
    >>> named_outputs(np.ones((2, 3, 3), bool), "forest", "batch 0")[0]["forest"].dtype
    dtype('uint8')
    """
    if isinstance(returned, list | tuple) and any(hasattr(each, "shape") for each in returned):
        if len(returned) > 1:
            raise UsageError(
                f"model: {where}: found a {type(returned).__name__} of {len(returned)} arrays; allowed are one array,"
                " or a mapping of name to array"
            )
        returned = returned[0]
    if returned is None:
        raise UsageError(f"model: {where}: found None; allowed are one array, or a mapping of name to array")
    given = returned if isinstance(returned, Mapping) else {name: returned}
    if not given:
        raise UsageError(
            f"model: {where}: found an empty mapping; allowed are one array, or a mapping of name to array"
        )
    infinite = 0
    found = {}
    types = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise UsageError(f"model: {where}: found the name {key!r} in a mapping; allowed are texts")
        array = _as_array(value)
        found[key], count = _plain(array, f"{where}: output {key!r}")
        is_narrow = array.dtype.kind in "iu" and array.dtype != np.uint64
        types[key] = array.dtype.newbyteorder("=") if is_narrow else found[key].dtype
        infinite += count
    return found, types, infinite


def _as_array(value: Any) -> NDArray[Any]:
    """A tensor's values in numpy, without importing what made it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        # numpy has no bfloat16.
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
    if hasattr(value, "numpy") and not isinstance(value, np.ndarray):
        value = value.numpy()
    return np.asarray(value)


def _plain(array: NDArray[Any], where: str) -> tuple[NDArray[Any], int]:
    kind = array.dtype.kind
    if kind == "b":
        return array.astype(np.uint8), 0
    if array.dtype == np.uint8 or array.dtype == np.float32:
        return array, 0
    if kind in "iu":
        if array.dtype == np.uint64 and array.size and int(array.max()) > _INT64_MAX:
            raise UsageError(f"model: {where}: {array.max()} is beyond {_INT64_MAX}, the largest that a record holds")
        return array.astype(np.int64), 0
    # bfloat16 of ml_dtypes is of kind V, and casts.
    if kind == "f" or array.dtype.name == "bfloat16":
        with np.errstate(over="ignore"):
            narrow = array.astype(np.float32)
        infinite = np.isinf(narrow) & np.isfinite(array) if array.dtype.itemsize > 4 else np.zeros(0, bool)
        return narrow, int(np.count_nonzero(infinite))
    raise UsageError(f"model: {where}: found values of type {array.dtype}; allowed are numbers and booleans")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputForm:
    """Which shapes a model may return.

    Attributes
    ----------
    patch_yx
        (rows, columns) of a patch without margins, in the output's pixels.
    block_yx
        The same with the margins: the most there may be.
    channels_last
        Whether a pixel's channels stand together, ``(patch, row, col, channel)``.
    per_patch
        Whether each patch gets one value, or one a channel, instead of pixels.
    """

    patch_yx: tuple[int, int]
    block_yx: tuple[int, int]
    channels_last: bool
    per_patch: bool

    def reading(self, array: NDArray[Any], patches: int, where: str) -> Reading:
        """How an output for ``patches`` patches is laid out.

        Raises
        ------
        UsageError
            Too few or too many predictions, or another shape.
        """
        if array.ndim and len(array) != patches:
            raise UsageError(
                f"model: {where}: found {len(array)} predictions, of shape {array.shape}; wanted {patches}, one for"
                " each patch of the batch"
            )
        reading = self._per_patch(array) if self.per_patch else self._pixels(array)
        if reading is None:
            raise UsageError(f"model: {where}: found shape {array.shape}; wanted {self._wanted(patches)}")
        return reading

    def _per_patch(self, array: NDArray[Any]) -> Reading | None:
        channels = array[0].size if array.ndim else 0
        if not channels or channels != max(array.shape[1:], default=1):
            return None
        return Reading(block_yx=self.patch_yx, margin_yx=(0, 0), channels=channels, is_constant=True)

    def _pixels(self, array: NDArray[Any]) -> Reading | None:
        if array.ndim not in (3, 4) or 0 in array.shape:
            return None
        is_last = array.ndim == 4 and self.channels_last
        block = (array.shape[1], array.shape[2]) if is_last or array.ndim == 3 else (array.shape[2], array.shape[3])
        channels = 1 if array.ndim == 3 else array.shape[-1 if is_last else 1]
        excess = block[0] - self.patch_yx[0], block[1] - self.patch_yx[1]
        for axis in (0, 1):
            if excess[axis] < 0 or excess[axis] % 2 or block[axis] > self.block_yx[axis]:
                return None
        margin = excess[0] // 2, excess[1] // 2
        return Reading(block_yx=block, margin_yx=margin, channels=channels, channels_last=is_last and channels > 1)

    def _wanted(self, patches: int) -> str:
        if self.per_patch:
            return f"({patches},) or ({patches}, C): one value for each patch, or one for each of C bands"
        (height, width), (most_height, most_width) = self.patch_yx, self.block_yx
        shape = f"({patches}, H, W, C)" if self.channels_last else f"({patches}, C, H, W)"
        words = f"({patches}, H, W) or {shape} with H x W = {height} x {width}"
        if self.patch_yx != self.block_yx:
            words += f", or with margins on all sides up to {most_height} x {most_width}"
        other = "channels_last=False" if self.channels_last else "channels_last=True"
        return f"{words}; {other} if channels stand {'first' if self.channels_last else 'last'}"
