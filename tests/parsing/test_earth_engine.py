"""A real export of Earth Engine, parsed with specs that were inferred from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from geotfr.records.messages import example_class
from geotfr.records.parse.example import parse_example, parse_single_example
from geotfr.records.parse.infer import infer_features, patch_features
from geotfr.records.parse.specs import FixedLenFeature
from geotfr.records.reader import read_records

SHARD = (
    Path(__file__).resolve().parents[2]
    / ".."
    / "shared"
    / "data"
    / "earth-engine"
    / "TEST_coeff_output_SIF_C_S_Amer-00005.tfrecord"
)

pytestmark = pytest.mark.skipif(not SHARD.exists(), reason="the real Earth Engine shard isn't there")


def test_a_real_shard_is_inferred_and_parsed_to_its_values() -> None:
    features = infer_features(SHARD)
    assert len(features) == 5
    assert all(spec == FixedLenFeature([316 * 316], np.float32) for spec in features.values())
    records = list(read_records(SHARD))
    specs = patch_features(features, patch_xy=(256, 256), kernel_xy=(60, 60))
    parsed: Any = parse_example(records, specs)
    single: Any = parse_single_example(records[1], specs)
    for key, values in parsed.items():
        assert values.shape == (2, 316, 316)
        # Record 0 is masked everywhere.
        assert (values[0] == -9999).all()
        message: Any = example_class().FromString(records[1])
        written = np.array(message.features.feature[key].float_list.value, np.float32)
        assert np.array_equal(values[1].ravel(), written)
        assert np.array_equal(single[key], values[1])
