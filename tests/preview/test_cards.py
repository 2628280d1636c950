"""What a notebook shows of plans, mixers, manifests and data sets is well-formed, true, and escaped."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import write_raster

import geotfr

EVIL = '<script>alert("x")</script>&'


@pytest.fixture
def shown(tmp_path: Path) -> dict[str, Any]:
    source = write_raster(tmp_path / "a<b>.tif", np.zeros((2, 60, 90), "uint8"), descriptions=(EVIL, "$b$"))
    plan = geotfr.plan_export(source, patch_dimensions=16, kernel_size=8)
    result = geotfr.export_image(source, tmp_path / "s", patch_dimensions=16, kernel_size=8)
    assert result.mixer is not None
    return {
        "plan": plan,
        "mixer": geotfr.read_mixer(result.mixer),
        "manifest": geotfr.read_manifest(result.manifest),
        "dataset": geotfr.PatchDataset(result.mixer),
    }


@pytest.mark.parametrize("kind", ["plan", "mixer", "manifest", "dataset"])
def test_a_card_is_well_formed_and_holds_no_markup_of_names(shown: dict[str, Any], kind: str) -> None:
    text = shown[kind]._repr_html_()
    root = ET.fromstring(text)
    assert not root.findall(".//script")
    assert "<script" not in text
    facts = {row[0].text: row[1].text for row in root.iter("tr")}
    words = " ".join(f"{name} {value}" for name, value in facts.items())
    assert "5 x 3 = 15" in words
    if kind != "mixer":
        assert EVIL in words
    lines = [each for each in root.iter() if each.tag.endswith("line")]
    assert len(lines) == 4 + 6


def test_a_grid_of_many_patches_has_a_small_sketch() -> None:
    mixer = geotfr.Mixer(
        crs="", affine=(1.0, 0.0, 0.0, 0.0, -1.0, 0.0), patch_xy=(1, 1), patches_per_row=10**6, total_patches=10**12
    )
    assert len(mixer._repr_html_()) < 20_000
