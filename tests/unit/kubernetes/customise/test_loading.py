"""Text into values: what is read as what, and what is refused with its line."""

import json

import pytest

from backends.kubernetes.customise.loading import (
    MOST_DEPTH,
    LoadProblem,
    check_value,
    load_document,
)

READ = [
    pytest.param("a: true", {"a": True}, id="true"),
    pytest.param(
        "a: [yes, on, True, ~, y]", {"a": ["yes", "on", "True", "~", "y"]}, id="p22"
    ),
    pytest.param("y: n", {"y": "n"}, id="p22-key"),
    pytest.param("a: 2024-01-01", {"a": "2024-01-01"}, id="date"),
    pytest.param("a: 0777", {"a": "0777"}, id="octal"),
    pytest.param("a: 12:30:45", {"a": "12:30:45"}, id="sexagesimal"),
    pytest.param(
        "a: [1e3, 0x1f, 1_000, .5, +1]",
        {"a": ["1e3", "0x1f", "1_000", ".5", "+1"]},
        id="odd-numbers",
    ),
    pytest.param(
        "a: [1, -7, 0, 1.5, -0.25]", {"a": [1, -7, 0, 1.5, -0.25]}, id="numbers"
    ),
    pytest.param("a: null", {"a": None}, id="null"),
    pytest.param("a: ['1', \"true\", '']", {"a": ["1", "true", ""]}, id="quoted"),
    pytest.param("a: |\n  1\n", {"a": "1\n"}, id="block"),
    pytest.param("{a: 1}", {"a": 1}, id="flow"),
    pytest.param(
        '{"a":1,"b":[1.5,null,false]}', {"a": 1, "b": [1.5, None, False]}, id="json"
    ),
    pytest.param('{\t"a"\n:\t"\\ud83d\\ude00"}', {"a": "\U0001f600"}, id="json-only"),
    pytest.param("---\na: 1\n...\n", {"a": 1}, id="marks"),
    pytest.param("# why\na: 1 # so\n", {"a": 1}, id="comments"),
    pytest.param("a: 9223372036854775807", {"a": 2**63 - 1}, id="largest"),
]


@pytest.mark.parametrize(("text", "want"), READ)
def test_each_value_is_what_it_looks_like(text, want) -> None:
    found = load_document(text).value

    assert found == want
    assert json.dumps(found) == json.dumps(want)


REFUSED = [
    pytest.param("a: 1\na: 2", "stands twice", 2, id="twice"),
    pytest.param('{"a":1,"a":2}', "stands twice", None, id="twice-in-json"),
    pytest.param("a: &x 1\nb: *x", "anchors", 1, id="anchor"),
    pytest.param("a: 1\n<<: {b: 1}", "anchors", 2, id="merge-key"),
    pytest.param("&k a: 1", "anchors", 1, id="key-anchor"),
    pytest.param("a: !!str 1", "tags", 1, id="tag"),
    pytest.param("!x a: 1", "must be quoted", 1, id="key-tag"),
    pytest.param("a: !!python/object:os.system {}", "tags", 1, id="python"),
    pytest.param("%YAML 1.1\n---\na: 1", "directives", 1, id="directive"),
    pytest.param("%TAG ! tag:x,2000:\n---\na: 1", "directives", 1, id="tag-directive"),
    pytest.param("a: 1\n---\nb: 1", "one document", 2, id="two"),
    pytest.param("", "is empty", None, id="empty"),
    pytest.param("# nothing", "is empty", None, id="comment"),
    pytest.param("---", "has no value", 1, id="nothing"),
    pytest.param("a:", "has no value", 1, id="no-value"),
    pytest.param("1: a", "must be quoted", 1, id="number-key"),
    pytest.param("true: a", "must be quoted", 1, id="true-key"),
    pytest.param("? [a]\n: 1", "names must be texts", 1, id="list-key"),
    pytest.param("a: 9223372036854775808", "64-bit", 1, id="large"),
    pytest.param('{"a":9223372036854775808}', "64-bit", None, id="large-in-json"),
    pytest.param('{"a":' + "9" * 5000 + "}", "64-bit", None, id="huge-in-json"),
    pytest.param('{"a":1e400}', "plain decimal", None, id="exponent-in-json"),
    pytest.param('{"a":NaN}', "plain decimal", None, id="nan-in-json"),
    pytest.param("a: [1", "neither JSON nor YAML", 1, id="unclosed"),
    pytest.param("a: \x01", "neither JSON nor YAML", None, id="control"),
    pytest.param("a: '\\ud800'", None, None, id="literal"),
    pytest.param('a: "\\ud800"', "a character that is none", 1, id="surrogate"),
    pytest.param('{"a":"\\u0000"}', "a character that is none", None, id="nul"),
    pytest.param("[" * 40 + "]" * 40, "deeper", None, id="deep-in-json"),
    pytest.param("[" * 6000 + "]" * 6000, "deeper", None, id="very-deep-in-json"),
    pytest.param("a: " + "[" * 40, "deeper", 1, id="deep"),
    pytest.param("a: " + "x" * 2**20, "1024 KiB", None, id="long"),
]


@pytest.mark.parametrize(("text", "says", "line"), REFUSED)
def test_what_would_be_guessed_is_refused_with_its_line(text, says, line) -> None:
    if says is None:
        assert load_document(text).value == {"a": "\\ud800"}
        return
    with pytest.raises(LoadProblem, match=says) as problem:
        load_document(text)

    assert problem.value.line == line


def test_an_alias_bomb_is_refused_at_its_first_anchor() -> None:
    """271 bytes that would stand for half a million leaves."""
    rows = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    rows += [
        f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]"
        for a, b in zip("abcde", "bcdef", strict=True)
    ]

    with pytest.raises(LoadProblem, match="anchors") as problem:
        load_document("\n".join(rows))
    assert (problem.value.path, problem.value.line) == (("a",), 1)


def test_lines_are_told_of_a_value_or_of_what_holds_it() -> None:
    yaml = load_document("a:\n- b: 1\n  c:\n    d: 2\n")
    json_text = load_document('{\n"a": {\n"b": 1}}')
    tabbed = load_document('{\n\t"a": 1\n}')

    assert yaml.find_line(("a", 0, "c", "d")) == 4
    assert yaml.find_line(("a", 0, "x", "y")) == 2
    assert yaml.find_line(()) == 1
    assert json_text.find_line(("a", "b")) == 3
    assert tabbed.find_line(("a",)) == 1
    assert type(yaml)(None).find_line(("a",)) is None


@pytest.mark.parametrize(
    ("value", "says"),
    [
        pytest.param({1: 2}, "quote them", id="key"),
        pytest.param({"\0": 2}, "a character", id="key-text"),
        pytest.param({"a": [object()]}, "must be a map", id="object"),
        pytest.param({"a": "\ud800"}, "a character", id="text"),
        pytest.param({"a": 2**63}, "64-bit", id="large"),
        pytest.param({"a": float("inf")}, "too large", id="infinite"),
        pytest.param({"a": float("nan")}, "too large", id="no-number"),
    ],
)
def test_values_that_json_does_not_have_are_refused(value, says) -> None:
    with pytest.raises(LoadProblem, match=says):
        check_value(value)


def test_a_value_that_holds_itself_is_too_deep() -> None:
    loop: list[object] = []
    loop.append(loop)

    with pytest.raises(LoadProblem, match="deeper") as problem:
        check_value(loop)
    assert len(problem.value.path) == MOST_DEPTH


def test_plain_values_pass() -> None:
    check_value({"a": [1, 1.5, True, None, "x", {"b": {}}]})
