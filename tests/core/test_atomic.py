"""Files that are written whole or not at all."""

import errno
import os
import stat
import threading

import pytest

from majorant.core.files import replacing


def test_a_file_that_fails_halfway_leaves_the_old_one(tmp_path):
    target = tmp_path / "t.txt"
    target.write_text("old")

    def write_half():
        with replacing(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        write_half()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("t.txt", "old")]


def test_no_file_of_the_user_is_in_the_way(tmp_path):
    (tmp_path / "t.part.txt").write_text("precious")
    with replacing(tmp_path / "t.txt") as temporary:
        temporary.write_text("new")
        assert temporary.suffix == ".txt"
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"t.part.txt": "precious", "t.txt": "new"}


def test_writers_of_one_file_do_not_mix(tmp_path):
    target, half_way = tmp_path / "t.txt", threading.Barrier(4)

    def write(letter):
        with replacing(target) as temporary, open(temporary, "w") as file:
            file.write(letter * 1000)
            file.flush()
            half_way.wait(10)
            file.write(letter * 1000)

    writers = [threading.Thread(target=write, args=(letter,)) for letter in "abcd"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert target.read_text() in [letter * 2000 for letter in "abcd"]
    assert list(tmp_path.iterdir()) == [target]


def test_contents_are_on_the_disk_before_they_have_the_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(os, "fsync", lambda file: done.append(os.fstat(file).st_size))
    monkeypatch.setattr(os, "replace", lambda *paths: done.append("named"))
    with replacing(tmp_path / "t.txt") as temporary:
        temporary.write_text("new")
    assert done == [3, "named", os.stat(tmp_path).st_size]  # and the name after that


def test_permissions_are_those_of_the_old_file_or_of_any_new_one(tmp_path):
    ordinary, target = tmp_path / "o.txt", tmp_path / "t.txt"
    ordinary.write_text("")
    modes = []
    for _ in range(2):
        with replacing(target) as temporary:
            temporary.write_text("new")
        modes.append(stat.S_IMODE(target.stat().st_mode))
        target.chmod(0o640)
    assert modes == [stat.S_IMODE(ordinary.stat().st_mode), 0o640]


def test_a_lack_of_room_is_told_of_the_file(tmp_path):
    def write():
        with replacing(tmp_path / "t.txt"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"No space left on device: '.*t\.txt'"):
        write()
    with pytest.raises(FileNotFoundError, match=r"none.t\.txt'"), replacing(tmp_path / "none" / "t.txt"):
        pass
    with replacing(tmp_path / ("n" * 250 + ".txt")) as temporary:  # as long as a name may be
        temporary.write_text("new")
