"""Models of PyTorch, Keras and ONNX Runtime predict rasters as the guide shows, and as numpy by whole arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle.rasters import read_raster
from predict.worlds import PLACE, scene

import geotfr

pytestmark = pytest.mark.interop

KERNEL = np.random.default_rng(5).normal(0, 1, (2, 3, 3, 3)).astype("float32")
OPTIONS: dict[str, Any] = {"patch_dimensions": 8, "kernel_size": 4, "batch_size": 3}


def convolved(pixels: np.ndarray) -> np.ndarray:
    """(2, row, col): ``pixels`` (3, row, col), 0 around them, correlated with :data:`KERNEL`."""
    around = np.pad(pixels, ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), axis=(1, 2))
    return np.einsum("ocyx,chwyx->ohw", KERNEL.astype("float64"), windows)


def test_a_torch_module_predicts_in_evaluation_mode_and_gets_its_mode_back(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 2, 3, bias=False), torch.nn.Dropout(0.9))
    with torch.no_grad():
        module[0].weight.copy_(torch.from_numpy(KERNEL))
    module.train()
    pixels = scene(3, 16, 24)
    for given in (module, lambda batch: module.eval()(torch.from_numpy(batch))):
        result = geotfr.predict(given, (pixels, *PLACE), tmp_path / "map.tif", overwrite=True, **OPTIONS)
        np.testing.assert_allclose(read_raster(tmp_path / "map.tif")[0], convolved(pixels), rtol=1e-4, atol=1e-3)
        assert result.bands == ("prediction_0", "prediction_1")
        module.train(given is not module)
    module.train()
    geotfr.predict(module, (pixels, *PLACE), tmp_path / "map.tif", overwrite=True, **OPTIONS)
    assert module.training


def test_a_torch_module_in_half_precision_and_with_named_outputs(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")

    class Two(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, given: dict[str, Any]) -> dict[str, Any]:
            return {"half": given["b1"].to(torch.bfloat16), "is_high": given["b2"] > 0}

    pixels = scene(2, 16, 16)
    geotfr.predict(Two(), (pixels, *PLACE), tmp_path / "map.tif", stack=False, patch_dimensions=8)
    half, is_high = read_raster(tmp_path / "map.tif")[0]
    np.testing.assert_allclose(half, pixels[0], rtol=2**-7)
    np.testing.assert_array_equal(is_high, pixels[1] > 0)


def test_a_keras_model_predicts_with_channels_last(tmp_path: Path) -> None:
    keras = pytest.importorskip("keras")
    inputs = keras.Input((None, None, 3))
    layer = keras.layers.Conv2D(2, 3, use_bias=False)
    model = keras.Model(inputs, layer(inputs))
    layer.set_weights([KERNEL.transpose(2, 3, 1, 0)])
    pixels = scene(3, 16, 24)
    for given in (model, model.predict_on_batch):
        geotfr.predict(given, (pixels, *PLACE), tmp_path / "map.tif", channels_last=True, overwrite=True, **OPTIONS)
        np.testing.assert_allclose(read_raster(tmp_path / "map.tif")[0], convolved(pixels), rtol=1e-4, atol=1e-3)


def test_an_onnx_session_predicts_by_its_run(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    helper, float32 = onnx.helper, onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "kernel"], ["out"])],
        "convolution",
        [helper.make_tensor_value_info("image", float32, ["n", 3, "h", "w"])],
        [helper.make_tensor_value_info("out", float32, ["n", 2, "y", "x"])],
        [onnx.numpy_helper.from_array(KERNEL, "kernel")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    pixels = scene(3, 16, 24)
    geotfr.predict(lambda batch: session.run(None, {name: batch})[0], (pixels, *PLACE), tmp_path / "map.tif", **OPTIONS)
    np.testing.assert_allclose(read_raster(tmp_path / "map.tif")[0], convolved(pixels), rtol=1e-4, atol=1e-3)
    with pytest.raises(geotfr.UsageError, match="for ONNX Runtime: lambda batch"):
        geotfr.predict(session, (pixels, *PLACE), tmp_path / "other.tif", **OPTIONS)
