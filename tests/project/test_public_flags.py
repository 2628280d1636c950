"""Every boolean of the public functions is a boolean: a text or a number that Python takes for true is refused."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import geotfr
from geotfr import options

WRONG = ("no", "false", "", "True", 0, 1, 1.0, np.int64(1))
KEYWORDS = {
    "Unpack[ExportKeywords]": options.ExportKeywords,
    "Unpack[IngestKeywords]": options.IngestKeywords,
    "Unpack[TableKeywords]": options.TableKeywords,
}


def is_flag(annotation: Any) -> bool:
    text = getattr(annotation, "__forward_arg__", annotation)
    return "bool" in re.split(r"\s*\|\s*", str(text))


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All functions and classes of the API, and the methods of its classes; results aren't made by callers."""
    for name in geotfr.__all__:
        found = getattr(geotfr, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found) and not issubclass(found, Exception) and not name.endswith(("Result", "Plan")):
            yield name, found
            for method, each in vars(found).items():
                if not method.startswith("_") and callable(getattr(found, method)) and not isinstance(each, property):
                    yield f"{name}.{method}", getattr(found, method)


def flags() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """(what, function, flag) of each boolean, those of the options' keywords included."""
    for name, function in public():
        for parameter in inspect.signature(function).parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD and str(parameter.annotation) in KEYWORDS:
                for each, annotation in inspect.get_annotations(KEYWORDS[str(parameter.annotation)]).items():
                    # predict refuses it whatever it is.
                    if is_flag(annotation) and (name, each) != ("predict", "of_collection"):
                        yield f"{name}({each})", function, each
            elif is_flag(parameter.annotation):
                yield f"{name}({parameter.name})", function, parameter.name


FLAGS = list(flags())


def arguments(function: Callable[..., Any], flag: str, value: Any) -> dict[str, Any]:
    """Keywords that reach the check: what has no default is a path that isn't there."""
    needed = {
        name: "/nowhere/x"
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    more = {"patch_dimensions": 8, "labels": "x.gpkg"} if "ExportKeywords" in str(inspect.signature(function)) else {}
    if "output" in inspect.signature(function).parameters:
        more["output"] = "/nowhere/x.tif"
    if "split" in needed:
        more["split"] = "0/2"
    return {**needed, **more, flag: value}


def takes_text(function: Callable[..., Any], flag: str) -> bool:
    parameter = inspect.signature(function).parameters.get(flag)
    return parameter is not None and "str" in re.split(r"\s*\|\s*", str(parameter.annotation))


@pytest.mark.parametrize(("function", "flag"), [each[1:] for each in FLAGS], ids=[each[0] for each in FLAGS])
def test_no_text_and_no_number_passes_for_a_boolean(function: Callable[..., Any], flag: str) -> None:
    for wrong in WRONG:
        if isinstance(wrong, str) and takes_text(function, flag):
            continue
        with pytest.raises(geotfr.UsageError) as told:
            function(**arguments(function, flag, wrong))
        assert flag in str(told.value)
        assert repr(wrong) in str(told.value)


@pytest.mark.parametrize("flag", ["compressed", "sequenceData", "collapseBands"])
def test_nor_in_format_options(flag: str) -> None:
    with pytest.raises(geotfr.UsageError):
        geotfr.plan_export("x.tif", patch_dimensions=8, format_options={flag: "no"})


def test_the_walk_finds_the_booleans_that_decide_rights_and_files() -> None:
    found = {name for name, _, _ in FLAGS}
    assert len(found) > 120
    assert found >= {
        "export_image(allow_network)",
        "export_image(unscale)",
        "export_image(coco)",
        "export_table(overwrite)",
        "ingest_predictions(overwrite)",
        "ingest_predictions(verify)",
        "sample_points(allow_network)",
        "PatchDataset(check_digests)",
        "Stream.batch(drop_remainder)",
    }


def test_booleans_of_numpy_pass() -> None:
    found = options.IngestOptions.checked(argmax=np.True_)  # type: ignore[arg-type]
    assert found.argmax is True


def test_what_is_checked_is_still_the_function_that_its_module_names() -> None:
    for function in (geotfr.export_image, geotfr.read_records, geotfr.FixedLenSequenceFeature):
        assert pickle.loads(pickle.dumps(function)) is function


def test_no_flag_is_annotated_in_another_way() -> None:
    """A default of True or False is a boolean's: the annotation says so, in words that the check reads."""
    found = []
    for path in sorted((Path(__file__).resolve().parents[2] / "geotfr").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                pairs = [*zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
                found += [
                    f"{path.name}:{node.lineno} {argument.arg}"
                    for argument, default in pairs
                    if isinstance(default, ast.Constant)
                    and isinstance(default.value, bool)
                    and (argument.annotation is None or not is_flag(ast.unparse(argument.annotation)))
                ]
    assert found == []
