import os
import stat
import tempfile

import pytest
from helpers import one_sentence
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neft._files import writing


@pytest.fixture
def target(tmp_path):
    """A file that holds something already, alone in its folder."""
    path = tmp_path / "note.txt"
    path.write_text("old")
    return path


def alone(path):
    return [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_content_appears_when_the_block_ends_and_not_before(target):
    with writing(target) as file:
        file.write("new")
        file.flush()
        assert target.read_text() == "old"
    assert target.read_text() == "new" and alone(target)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_error_in_the_block_passes_and_leaves_the_old_content(target, error):
    with pytest.raises(error), writing(target) as file:
        file.write("half")
        raise error
    assert target.read_text() == "old" and alone(target)


def test_an_error_in_the_block_leaves_no_file_where_there_was_none(tmp_path):
    with pytest.raises(RuntimeError), writing(tmp_path / "note.txt") as file:
        file.write("half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_disk_error_in_the_block_is_one_sentence(target):
    with one_sentence(f"cannot write {str(target)!r}: No space left on device."), writing(target) as file:
        file.write("half")
        raise OSError(28, "No space left on device")
    assert target.read_text() == "old" and alone(target)


def test_an_error_without_a_system_message_keeps_its_own(target):
    with one_sentence("cannot write", "the plug was pulled"), writing(target):
        raise OSError("the plug was pulled")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r")))
def test_bytes_and_text_come_back_as_they_were(tmp_path, content, text):
    with writing(tmp_path / "bytes", binary=True) as file:
        file.write(content)
    assert (tmp_path / "bytes").read_bytes() == content
    with writing(tmp_path / "text") as file:
        file.write(text)
    assert (tmp_path / "text").read_bytes() == text.encode()


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        with writing(tmp_path / "note.txt") as file:
            file.write("x")
        assert os.umask(mask) == mask
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "note.txt").stat().st_mode) == 0o666 & ~mask


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    path = tmp_path / "no" / "note.txt"
    with one_sentence(f"cannot write {str(path)!r}: No such file or directory."), writing(path):
        pytest.fail("the block ran")


def test_a_file_in_place_of_the_folder_is_one_sentence(target):
    path = target / "note.txt"
    with one_sentence(f"cannot write {str(path)!r}: Not a directory."), writing(path):
        pytest.fail("the block ran")


def test_a_folder_in_place_of_the_file_is_one_sentence_and_stays_clean(tmp_path):
    path = tmp_path / "folder"
    path.mkdir()
    with one_sentence(f"cannot write {str(path)!r}: Is a directory."), writing(path) as file:
        file.write("x")
    assert alone(path) and list(path.iterdir()) == []


def test_a_folder_one_may_not_write_to_is_one_sentence(target, monkeypatch):
    def refused(**_):
        raise PermissionError(13, "Permission denied")

    # Tests may run as root, to whom every folder is open.
    monkeypatch.setattr(tempfile, "mkstemp", refused)
    with one_sentence(f"cannot write {str(target)!r}: Permission denied."), writing(target):
        pytest.fail("the block ran")
    assert target.read_text() == "old" and alone(target)
