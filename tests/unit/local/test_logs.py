"""Stories of a log whose files change under the reader."""

import pytest

from backends.local.logs import MAX_LINE_BYTES, LogReader, read_tail


@pytest.fixture
def paths(tmp_path):
    return tmp_path / "output.log.1", tmp_path / "output.log"


def write(paths, text: str) -> None:
    with paths[1].open("a") as file:
        file.write(text)


def rotate(paths) -> None:
    paths[1].rename(paths[0])


def test_no_file_has_no_lines(paths):
    assert read_tail(paths, 5) == ()


def test_a_tail_reaches_back_into_the_older_file(paths):
    write(paths, "a\nb\nc\n")
    rotate(paths)
    write(paths, "d\n")

    assert read_tail(paths, 3) == ("b", "c", "d")
    assert read_tail(paths, 1) == ("d",)


def test_a_line_that_was_split_over_both_files_is_whole(paths):
    write(paths, "a\nbe")
    rotate(paths)
    write(paths, "gin\nend\n")

    assert read_tail(paths, 9) == ("a", "begin", "end")


def test_an_unfinished_last_line_counts_as_one(paths):
    write(paths, "a\nb\nc")

    assert read_tail(paths, 2) == ("b", "c")


@pytest.mark.parametrize("count", [1, 10, 3000])
def test_a_tail_of_long_files_is_exact(paths, count):
    lines = [f"{number} {'x' * 100}" for number in range(5000)]
    write(paths, "\n".join(lines) + "\n")

    assert read_tail(paths, count) == tuple(lines[-count:])


def test_a_line_without_end_is_cut_into_pieces(paths):
    write(paths, "x" * (3 * MAX_LINE_BYTES))
    reader = LogReader(paths, tail=0)
    write(paths, "y" * (3 * MAX_LINE_BYTES) + "\n")

    with reader:
        read = reader.read(is_last=True)

    assert max(map(len, read)) <= 4 * MAX_LINE_BYTES
    assert "".join(read).count("y") == 3 * MAX_LINE_BYTES


def test_what_comes_between_reads_is_read_once(paths):
    write(paths, "a\nb")

    with LogReader(paths, tail=9) as reader:
        assert reader.read() == ["a"]
        assert reader.read() == []
        write(paths, "b\nc\n")
        assert reader.read() == ["bb", "c"]


def test_a_file_that_appears_later_is_read_from_its_beginning(paths):
    with LogReader(paths, tail=0) as reader:
        assert reader.read() == []
        write(paths, "a\n")
        assert reader.read() == ["a"]


def test_a_change_of_files_between_reads_loses_nothing(paths):
    write(paths, "a\n")
    with LogReader(paths, tail=9) as reader:
        reader.read()
        write(paths, "b\nc")
        rotate(paths)
        write(paths, "d\ne\n")

        assert reader.read() == ["b", "cd", "e"]


def test_two_changes_between_reads_are_told_since_nobody_knows_of_a_third(paths):
    write(paths, "a\n")
    with LogReader(paths, tail=9) as reader:
        reader.read()
        write(paths, "b\n")
        rotate(paths)
        write(paths, "kept\n")
        rotate(paths)
        write(paths, "c\n")

        read = reader.read()

    assert read[0] == "b"
    assert "may be missing" in read[1]
    assert read[2:] == ["kept", "c"]


def test_three_changes_between_reads_lose_the_middle_and_say_so(paths):
    write(paths, "a\n")
    with LogReader(paths, tail=9) as reader:
        reader.read()
        for text in ("b\n", "lost\n", "c\n"):
            write(paths, text)
            rotate(paths)
        write(paths, "d\n")

        read = reader.read()

    assert read[0] == "b"
    assert "may be missing" in read[1]
    assert read[2:] == ["c", "d"]
