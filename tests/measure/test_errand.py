"""What a worker's environment is before torch and NCCL read it."""

from __future__ import annotations

import os

import pytest

from bench.measure import errand


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("NCCL_", "TORCH_NCCL_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(errand.torch, "set_num_threads", lambda count: None)


def prepared(**settings: str | None) -> dict[str, str]:
    errand._prepare(
        errand.Errand(
            prefix="g", rank=0, ranks=2, global_rank=0, local_rank=0, backend="nccl",
            store_host="127.0.0.1", store_port=1, environment=settings,
            stacks_file=os.devnull, words_file=os.devnull, log_file="/proc/self/fd/9",
        )
    )  # fmt: skip
    return dict(os.environ)


def test_torchs_own_watch_over_nccl_is_off_whatever_the_user_set() -> None:
    """Its signal to dump is a key of the store that all cases share."""
    os.environ["TORCH_NCCL_DUMP_ON_TIMEOUT"] = "1"
    found = prepared()
    assert found["TORCH_NCCL_DUMP_ON_TIMEOUT"] == found["TORCH_FR_DUMP_ON_TIMEOUT"] == "0"
    assert found["TORCH_NCCL_ENABLE_MONITORING"] == "0"


def test_a_candidate_sets_unsets_and_empties() -> None:
    os.environ |= {"NCCL_ALGO": "Tree", "NCCL_P2P_LEVEL": "LOC"}
    found = prepared(NCCL_ALGO=None, NCCL_P2P_LEVEL="", NCCL_NET="IB")
    assert "NCCL_ALGO" not in found
    assert (found["NCCL_P2P_LEVEL"], found["NCCL_NET"]) == ("", "IB")
    assert (found["NCCL_DEBUG"], found["NCCL_DEBUG_FILE"]) == ("INFO", "/proc/self/fd/9")
