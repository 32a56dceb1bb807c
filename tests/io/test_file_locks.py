"""A file is locked by one process at a time, and nothing of it stays."""

import pytest

from fairseq_specdec.io.file_locks import alone


def test_one_at_a_time_and_nothing_stays(tmp_path):
    path = tmp_path / "lock"
    for _ in range(2):
        with alone(str(path), "--out: here"):
            holder = "--out: here is being written by another process; wait until"
            with pytest.raises(ValueError, match=holder), alone(str(path), "--out: here"):
                pass
            assert path.exists()
        assert not path.exists()
