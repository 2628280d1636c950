"""Case 44: one SequenceExample per pixel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from oracle import wire
from oracle.rasters import write_raster
from oracle.run import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kinds", ["float", "native"])
def test_case_44_a_scalar_in_the_context_and_two_of_three_steps_for_each_of_four_pixels(
    kinds: str, tmp_path: Path
) -> None:
    # Band 1 is the scalar; bands 2 to 4 are the array, of which the last is cut off.
    data = np.array([[[1, 2], [3, 4]], [[10, 20], [30, 40]], [[11, 21], [31, 41]], [[12, 22], [32, 42]]], "int16")
    source = write_raster(tmp_path / "scene.tif", data, descriptions=("slope", None, None, None))
    outcome = run(
        *("export", source, "--output", tmp_path / "set", "--patch-dimensions", "2", "--quiet", "--sequence-data"),
        *("--array-band", "evi=2-4", "--tensor-depths", "evi=2", "--feature-kinds", kinds),
    )
    assert outcome.code == 0, outcome.told
    records = wire.read_sequences(tmp_path / "set.tfrecord.gz")
    assert len(records) == 4
    for pixel, (context, lists) in enumerate(records, 1):
        assert {key: values.tolist() for key, values in context.items()} == {"slope": [pixel]}
        assert {key: [step.tolist() for step in steps] for key, steps in lists.items()} == {
            "evi": [[10 * pixel], [10 * pixel + 1]]
        }
