"""What scientists store through fsspec: pandas, pyarrow, dask and zarr."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

import tidefs

# Of each other's deprecations these libraries warn themselves.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

np = importlib.import_module("numpy")


@pytest.fixture
def options(running: tidefs.Run) -> dict[str, Any]:
    return {"mount": str(running.mount), "auto_mkdir": True}


def test_pandas_and_pyarrow(options: dict[str, Any]) -> None:
    pd = importlib.import_module("pandas")
    importlib.import_module("pyarrow")
    frame = pd.DataFrame({"a": range(1000), "b": [str(n) for n in range(1000)]})
    for name, write, read in [
        ("x.csv", frame.to_csv, pd.read_csv),
        ("x.parquet", frame.to_parquet, pd.read_parquet),
    ]:
        write(f"tidefs://pandas/{name}", index=False, storage_options=options)
        back = read(f"tidefs://pandas/{name}", storage_options=options)
        assert back["a"].tolist() == frame["a"].tolist()


def test_pyarrow_datasets(running: tidefs.Run, options: dict[str, Any]) -> None:
    pa = importlib.import_module("pyarrow")
    dataset = importlib.import_module("pyarrow.dataset")
    fs = running.fsspec
    table = pa.table({"key": [n % 4 for n in range(1000)], "value": list(range(1000))})
    dataset.write_dataset(
        table, "/arrow", filesystem=fs, format="parquet", partitioning=["key"],
        existing_data_behavior="overwrite_or_ignore",
    )
    back = dataset.dataset("/arrow", filesystem=fs, partitioning=["key"]).to_table()
    assert sorted(back["value"].to_pylist()) == list(range(1000))


def test_dask(options: dict[str, Any]) -> None:
    pd = importlib.import_module("pandas")
    dd = importlib.import_module("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame({"a": range(1000)}), npartitions=8)
    frame.to_parquet("tidefs://dask", storage_options=options, overwrite=True)
    back = dd.read_parquet("tidefs://dask", storage_options=options)
    assert int(back["a"].sum().compute(scheduler="threads")) == sum(range(1000))


def test_zarr(options: dict[str, Any]) -> None:
    zarr = importlib.import_module("zarr")
    data = np.arange(64 * 64).reshape(64, 64)
    array = zarr.create_array(
        "tidefs://cube.zarr", shape=data.shape, chunks=(8, 8), dtype=data.dtype,
        storage_options=options, overwrite=True,
    )
    array[:] = data
    back = zarr.open_array("tidefs://cube.zarr", mode="r", storage_options=options)
    assert (back[:] == data).all()
