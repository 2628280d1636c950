"""A model at work: batches in, checked predictions out, as patches that an ingest places or a shard takes."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from geotfr.errors import UsageError
from geotfr.pipeline.ingest.predictions import PatchValues, PredictionBand
from geotfr.pipeline.predict.inputs import batched
from geotfr.pipeline.predict.outputs import OutputForm, named_outputs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from geotfr.pipeline.ingest.output_grid import OutputGrid
    from geotfr.pipeline.predict.inputs import Batch, BatchForm, PatchInputs
    from geotfr.records.faults import ReadReport

__all__ = ["ModelPredictions", "model_of"]

_KINDS = {np.dtype(np.uint8): "bytes", np.dtype(np.int64): "int64", np.dtype(np.float32): "float"}


@contextmanager
def model_of(model: object) -> Iterator[Callable[[Any], Any]]:
    """A function on arrays that calls ``model``.

    A ``torch.nn.Module`` gets tensors on its own device, in evaluation mode and without gradients; its mode is put back
    at the end.

    Raises
    ------
    UsageError
        It can't be called.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        yield from _torch_module(torch, model)
        return
    if not callable(model):
        hint = ""
        if hasattr(model, "run") and hasattr(model, "get_inputs"):
            hint = "; for ONNX Runtime: lambda batch: session.run(None, {session.get_inputs()[0].name: batch})[0]"
        raise UsageError(f"model: {type(model).__name__} can't be called; give a function of a batch{hint}")
    yield model


def _torch_module(torch: Any, module: Any) -> Iterator[Callable[[Any], Any]]:
    device = next((parameter.device for parameter in module.parameters()), torch.device("cpu"))

    def tensor(array: NDArray[Any]) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    def call(batch: Any) -> Any:
        given = {name: tensor(array) for name, array in batch.items()} if isinstance(batch, dict) else tensor(batch)
        with torch.inference_mode():
            return module(given)

    was_training = module.training
    module.eval()
    try:
        yield call
    finally:
        module.train(was_training)


class ModelPredictions:
    """The predictions of a model; see :class:`geotfr.pipeline.ingest.overlap.PatchSource`.

    The first batch is predicted at once: it tells the bands.

    Parameters
    ----------
    model
        A function on batches.
    inputs
        The patches.
    grid
        Where predictions lie.
    form
        How batches are laid out; outputs have their channels where inputs have them.
    name
        What a single output is called.
    class_names
        Names of its channels, or None.
    per_patch
        Whether a patch gets one value a band.

    Raises
    ------
    UsageError
        Predictions of another shape, count or type; a name twice.
    """

    def __init__(
        self,
        model: Callable[[Any], Any],
        inputs: PatchInputs,
        grid: OutputGrid,
        form: BatchForm,
        *,
        name: str,
        class_names: Sequence[str] | None,
        per_patch: bool,
    ) -> None:
        self._model = model
        self._inputs = inputs
        self._form = form
        self._name = name
        self._class_names = class_names
        self._output_form = OutputForm(
            patch_yx=grid.patch_yx,
            block_yx=_most(grid, inputs),
            channels_last=form.channels_last,
            per_patch=per_patch,
        )
        self.seconds = 0.0
        """Time in the model."""
        self.batches = 0
        """Calls of the model."""
        self.infinite = 0
        """float64 values beyond float32's range."""
        self._whole = range(grid.columns)
        self._begun = self._batches(self._whole)
        first = next(self._begun, None)
        if first is None:
            raise UsageError(f"{inputs.name}: no patch is left to predict: all are over the masked threshold")
        self._types: dict[str, np.dtype[Any]] = {}
        self._first: tuple[Batch, dict[str, NDArray[Any]]] | None = (first, self._predicted(first, check=False))
        self.bands = self._bands(*self._first)
        self._makes = {name: (each.dtype, each.shape[1:]) for name, each in self._first[1].items()}

    @property
    def lost(self) -> int:
        """Patches whose records were lost."""
        return self._inputs.lost

    @property
    def warnings(self) -> list[str]:
        """What a user should know, one line each."""
        if not self.infinite:
            return []
        return [f"{self.infinite:,} float64 predictions beyond float32's range became infinite"]

    @property
    def patch_bytes(self) -> int:
        """Bytes of a patch's predictions."""
        return sum(int(np.prod(shape)) * dtype.itemsize for dtype, shape in self._makes.values())

    def patches(self, report: ReadReport, columns: range, rows: range | None = None) -> Iterator[PatchValues]:
        """The predictions of some patch columns, in ascending order of the patches; nobody asks for some rows."""
        del report, rows
        if columns == self._whole and self._first is not None:
            # What the bands were found by isn't predicted again.
            predicted: Iterator[tuple[Batch, dict[str, NDArray[Any]]]] = chain([self._first], self._each(self._begun))
            self._first = None
        else:
            predicted = self._each(self._batches(columns))
        for batch, outputs in predicted:
            edges = [0, *(np.flatnonzero(np.diff(batch.numbers) != 1) + 1).tolist(), len(batch.numbers)]
            for start, stop in pairwise(edges):
                number = int(batch.numbers[start])
                values = {name: each[start:stop].reshape(stop - start, -1) for name, each in outputs.items()}
                yield PatchValues(number, values, (f"the model's predictions of {self._inputs.name}", number))

    def _batches(self, columns: range) -> Iterator[Batch]:
        return batched(self._inputs.pieces(columns), self._inputs.features, self._inputs.block_yx, self._form)

    def _each(self, batches: Iterator[Batch]) -> Iterator[tuple[Batch, dict[str, NDArray[Any]]]]:
        for batch in batches:
            yield batch, self._predicted(batch, check=True)

    def _where(self, batch: Batch) -> str:
        first, last = batch.numbers[0], batch.numbers[-1]
        return f"batch {batch.number} (patches {first} to {last} of {self._inputs.name})"

    def _predicted(self, batch: Batch, *, check: bool) -> dict[str, NDArray[Any]]:
        where = self._where(batch)
        started = time.perf_counter()
        try:
            returned = self._model(batch.pixels)
            outputs, types, infinite = named_outputs(returned, self._name, where)
        except UsageError:
            raise
        except Exception as error:
            error.add_note(f"geotfr: the model failed on {where}, {_shapes(batch)}")
            raise
        self.seconds += time.perf_counter() - started
        self.batches += 1
        self.infinite += infinite
        if check:
            self._check(outputs, types, batch, where)
        else:
            self._types = types
        return outputs

    def _check(
        self, outputs: dict[str, NDArray[Any]], types: dict[str, np.dtype[Any]], batch: Batch, where: str
    ) -> None:
        """Refuse what isn't made as the first batch's predictions."""
        if outputs.keys() != self._makes.keys():
            raise UsageError(
                f"model: {where}: found outputs {', '.join(outputs)}; the first batch has {', '.join(self._makes)}"
            )
        for name, array in outputs.items():
            self._output_form.reading(array, len(batch.numbers), f"{where}: output {name!r}")
            dtype, shape = self._makes[name]
            is_held = array.dtype == dtype and np.can_cast(types[name], self._types[name], "safe")
            if not is_held or array.shape[1:] != shape:
                raise UsageError(
                    f"model: {where}: output {name!r}: found {types[name]} of shape {array.shape}; the first batch has"
                    f" {self._types[name]} of shape {('n', *shape)}".replace("'n'", "n")
                )

    def _bands(self, batch: Batch, outputs: dict[str, NDArray[Any]]) -> tuple[PredictionBand, ...]:
        if self._class_names is not None and len(outputs) > 1:
            raise UsageError(f"class_names: name the bands of one output; the model has {', '.join(outputs)}")
        bands = []
        for feature, array in outputs.items():
            where = f"{self._where(batch)}: output {feature!r}"
            reading = self._output_form.reading(array, len(batch.numbers), where)
            for channel, name in enumerate(self._names(feature, reading.channels, where)):
                bands.append(
                    PredictionBand(
                        name=name,
                        feature=feature,
                        channel=channel,
                        kind=_KINDS[array.dtype],
                        length=array[0].size,
                        reading=reading,
                        dtype=self._types[feature],
                    )
                )
        names = [band.name for band in bands]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise UsageError(f"model: two bands are called {twice!r}; name its outputs apart, or give class_names")
        return tuple(bands)

    def _names(self, feature: str, channels: int, where: str) -> Sequence[str]:
        if self._class_names is not None:
            if len(self._class_names) != channels:
                raise UsageError(
                    f"class_names: found {len(self._class_names)} names; {where} has {channels} bands; name each"
                )
            return self._class_names
        return (feature,) if channels == 1 else [f"{feature}_{channel}" for channel in range(channels)]


def _most(grid: OutputGrid, inputs: PatchInputs) -> tuple[int, int]:
    """(rows, columns) of a prediction with all the margins that its patch had, in the output's pixels."""
    width, height = inputs.mixer.patch_xy
    sides = []
    for patch, own, block in zip(grid.patch_yx, (height, width), inputs.block_yx, strict=True):
        margin = (block - own) // 2 * patch // own
        sides.append(patch + 2 * margin)
    return sides[0], sides[1]


def _shapes(batch: Batch) -> str:
    if isinstance(batch.pixels, dict):
        return "arrays " + ", ".join(f"{name} {each.dtype} {each.shape}" for name, each in batch.pixels.items())
    return f"an array {batch.pixels.dtype} {batch.pixels.shape}"
