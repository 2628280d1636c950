"""Checksums of rows equal those of each row, bit by bit."""

from __future__ import annotations

import numpy as np
import pytest
from records_reading.shards import masked_crc

from geotfr.records.crc import RowCrc, crc32c, masked_crc32c, masked_crc32c_rows


@pytest.mark.parametrize("length", [0, 1, 2, 7, 31, 64, 96, 97, 500])
@pytest.mark.parametrize("count", [1, 7, 8, 50])
def test_rows_have_the_checksums_of_the_format(length: int, count: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (count, length + 3), np.uint8)[:, 1 : length + 1]
    wanted = [masked_crc(row.tobytes()) for row in rows]
    found = masked_crc32c_rows(rows)
    assert found.dtype == np.uint32
    assert found.tolist() == wanted == [masked_crc32c(row.tobytes()) for row in rows]


@pytest.mark.parametrize("length", [1, 2, 31, 64])
def test_many_rows_have_the_checksums_that_each_has_alone(length: int) -> None:
    rows = np.random.default_rng(length).integers(0, 256, (5000, length + 3), np.uint8)[:, 1 : length + 1]
    wanted = [masked_crc32c(row.tobytes()) for row in rows]
    assert masked_crc32c_rows(rows).tolist() == wanted
    assert masked_crc32c_rows(np.asfortranarray(rows)).tolist() == wanted
    template = rows[0].copy()
    rows[:, : length // 3] = template[: length // 3]
    wanted = [masked_crc32c(row.tobytes()) for row in rows]
    assert RowCrc(length, template, [(length // 3, length)]).masked(rows).tolist() == wanted


def test_a_template_proves_rows_by_their_varying_bytes_alone() -> None:
    rng = np.random.default_rng(0)
    template = rng.integers(0, 256, 200, np.uint8)
    rows = np.repeat(template[None], 30, axis=0)
    spans = [(150, 158), (3, 7)]
    for start, stop in spans:
        rows[:, start:stop] = rng.integers(0, 256, (30, stop - start), np.uint8)
    crc = RowCrc(200, template, spans)
    assert crc.masked(rows).tolist() == [masked_crc(row.tobytes()) for row in rows]
    rows[4, 20] ^= 1
    assert crc.masked(rows)[4] != masked_crc(rows[4].tobytes())


def test_a_checksum_goes_on_where_the_last_one_ended() -> None:
    data = bytes(range(200))
    assert crc32c(data[70:], crc32c(data[:70])) == crc32c(data)
    assert crc32c(b"123456789") == 0xE3069283
