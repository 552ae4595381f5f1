"""Data for training: what is read, how it is dealt, and what is refused before anything is paid."""

from __future__ import annotations

import csv
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from skillopt_sleep.errors import UsageError
from skillopt_sleep.train.datasets import SPLITS, Splits, check_splits, load_splits, read_items, split_items

WORDS = ("anvil", "birch", "cobalt", "dune", "ember", "flint", "grove", "heron", "iris", "jade", "kelp", "lilac")


def item(name, question=None, answer="yes"):
    return {"id": name, "question": question or f"What of the {name}?", "answers": [answer]}


def distinct(count):
    """Items that have nothing in common."""
    return [item(f"{a}-{b}", f"Describe the {a} {b}") for a in WORDS for b in WORDS if a != b][:count]


def ids(splits):
    return {split: {each["id"] for each in splits[split]} for split in SPLITS}


@pytest.mark.parametrize(
    ("name", "text"),
    {
        "list": ("x.json", '[{"id": "a", "n": 1}, {"id": "b"}]'),
        "object": ("x.json", '{"items": [{"id": "a", "n": 1}, {"id": "b"}]}'),
        "by id": ("x.json", '{"a": {"n": 1}, "b": {}}'),
        "lines": ("x.jsonl", '{"id": "a", "n": 1}\n\n{"id": "b"}\n'),
        "byte order mark": ("x.jsonl", '\ufeff{"id": "a", "n": 1}\n{"id": "b"}'),
    }.values(),
)
def test_items_are_read_from_every_shape(tmp_path, name, text):
    """A list, an object with a list, an object by id, or one item per line."""
    path = tmp_path / name
    path.write_text(text)
    assert read_items(path) == [{"id": "a", "n": 1}, {"id": "b"}]


@pytest.mark.parametrize(("suffix", "mark"), [(".csv", ","), (".csv", ";"), (".tsv", "\t")])
def test_csv_has_names_and_lists_in_cells(tmp_path, suffix, mark):
    """The first line names the columns; a JSON list in a cell is parsed; quoted cells keep line breaks.

    A row of empty cells, as spreadsheets add, is no item.
    """
    path = tmp_path / f"x{suffix}"
    row = ["7", '"two\nlines"', '"[""a"", ""b""]"']
    path.write_text("\n".join(map(mark.join, (["id", "question", "answers"], row, ["", "", ""]))))
    assert read_items(path) == [{"id": "7", "question": "two\nlines", "answers": ["a", "b"]}]


BROKEN = {
    "no JSON": ("x.json", "[{]", r"x\.json: this is not JSON.*line 1"),
    "no JSON in a line": (
        "x.jsonl",
        '{"id": 1}\n{"id":',
        r"x\.jsonl:2: this is not JSON: Expecting value \(column 7\)",
    ),
    "no list": ("x.json", '{"rules": 3}', "must be a list of items"),
    "not an object": ("x.jsonl", "3", r"x\.jsonl:1: an item must be an object"),
    "no cell": ("x.csv", "id,question\n1", r"x\.csv:2: this row must have 2 cells"),
    "cell too many": ("x.csv", "id,question\n1,a,b", r"x\.csv:2: this row must have 2 cells"),
    "column twice": ("x.csv", "id,id\n1,2", "must name each column once"),
    "kind": ("x.xlsx", "", r"ends in '\.xlsx'; a data file must end in \.json, "),
    "one column": ("x.csv", "id question\n1 a", "has only one column, 'id question'; separate columns by ','"),
    "not UTF-8": ("x.csv", b"id\n\xff", "is not UTF-8 .at byte 3.; save it as UTF-8"),
}


@pytest.mark.parametrize(("name", "text", "says"), BROKEN.values(), ids=BROKEN)
def test_unreadable_file_is_reported_with_its_line(tmp_path, name, text, says):
    """One line names the file, the place and the mistake."""
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UsageError, match=says) as error:
        read_items(path)
    assert "\n" not in str(error.value)


def test_missing_file_is_named(tmp_path):
    """The error names the path and the reason."""
    with pytest.raises(UsageError, match=r"cannot read the data file .*none\.json: No such file"):
        read_items(tmp_path / "none.json")
    for ratio in ("", "1:1:1"):
        with pytest.raises(UsageError, match=r"the data .*none\.json do not exist"):
            load_splits(tmp_path / "none.json", ratio=ratio)


@pytest.mark.parametrize("layout", ["folders", "files", "other names"])
def test_folder_is_read_by_split(tmp_path, layout):
    """train/, val/ and test/ with any files in them, or one file each; val may be called valid or dev."""
    items = distinct(6)
    for index, split in enumerate(SPLITS):
        rows = items[2 * index : 2 * index + 2]
        if layout == "folders":
            (tmp_path / split).mkdir()
            (tmp_path / split / "a.json").write_text(json.dumps(rows[:1]))
            (tmp_path / split / "b.jsonl").write_text(json.dumps(rows[1]))
            (tmp_path / split / "README.txt").write_text("no data")
        else:
            name = {"val": "dev"}.get(split, split) if layout == "other names" else split
            (tmp_path / f"{name}.json").write_text(json.dumps(rows))
    splits = load_splits(tmp_path)
    assert [each["id"] for split in SPLITS for each in splits[split]] == [each["id"] for each in items]
    assert splits.notes == ()


@pytest.mark.parametrize(
    ("test", "says"),
    [
        (None, r"has no test/ and no test\.jsonl: it needs .*or a ratio"),
        ("", r"the split 'test' is empty: .*test\.jsonl holds no items"),
        ({}, r"the split 'test' is empty: .*test holds no file that ends in \.json"),
    ],
    ids=["no file", "no items", "no file in its folder"],
)
def test_missing_split_is_reported_when_needed(tmp_path, test, says):
    """A split is missed only by what uses it; the error says what is there and what would do."""
    items = [item(word, answer=word) for word in WORDS[:4]]
    for split, rows in zip(("train", "val"), (items[:2], items[2:]), strict=True):
        (tmp_path / f"{split}.json").write_text(json.dumps(rows))
    if test is not None:
        (tmp_path / "test.jsonl").write_text("") if test == "" else (tmp_path / "test").mkdir()
    splits = load_splits(tmp_path)
    assert [len(splits.require(split)) for split in ("train", "val")] == [2, 2]
    with pytest.raises(UsageError, match=says):
        splits.require("test")


def test_folder_without_any_split_is_refused(tmp_path):
    """The message names what a folder needs."""
    with pytest.raises(UsageError, match=r"no train/ and no train\.jsonl: it needs one of them for each of train, val"):
        load_splits(tmp_path)


def test_file_without_items_is_named(tmp_path):
    """The error names the file, not the ratio."""
    (tmp_path / "x.jsonl").write_text("")
    with pytest.raises(UsageError, match=r"x\.jsonl contains no items"):
        load_splits(tmp_path / "x.jsonl", ratio="2:1:1")


def test_folder_with_a_split_twice_is_refused(tmp_path):
    """Nobody can know which of the two is meant."""
    for name in ("train.json", "train.csv", "val.json", "test.json"):
        (tmp_path / name).write_text("[]" if name.endswith("json") else "id\n")
    with pytest.raises(UsageError, match=r"has both train\.json and train\.csv"):
        load_splits(tmp_path)


def test_one_file_needs_a_ratio(tmp_path):
    """A single file does not say how to deal it."""
    path = tmp_path / "x.json"
    path.write_text("[]")
    with pytest.raises(UsageError, match="'2:1:7'"):
        load_splits(path)


def test_ratio_deals_exact_shares_by_seed(tmp_path):
    """100 items at 2:1:7 are 20, 10 and 70; the same seed deals the same."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps(distinct(100)))
    splits = load_splits(path, ratio="2:1:7", seed=1)
    assert [len(splits[split]) for split in SPLITS] == [20, 10, 70]
    assert load_splits(path, ratio="2:1:7", seed=1) == splits
    assert ids(load_splits(path, ratio="2:1:7", seed=2)) != ids(splits)
    assert [len(load_splits(path, ratio="2:1:7", seed=1, limit=5)[split]) for split in SPLITS] == [5, 5, 5]


@pytest.mark.parametrize("ratio", ["2:1", "2:1:0", "a:b:c", "2:1:-7", "", "1.5:1:1", "²:1:1"])
def test_invalid_ratio_is_refused(ratio):
    """A ratio is three whole numbers above 0."""
    with pytest.raises(UsageError, match="train:val:test"):
        split_items(distinct(10), ratio)


TWIN_SETS = [
    [("Write the release notes for the parser", "x"), ("please write release notes for the parser!", "x")],
    [
        ("Name the capital of Norway", "Oslo"),
        ("What is Norway's capital?", "oslo."),
        ("capital city of Norway", "Oslo"),
    ],
]


@pytest.mark.parametrize("seed", range(8))
def test_near_duplicates_never_straddle_a_dealt_split(seed):
    """The same request in other words, with the same answer, stays in one split, whatever the seed."""
    twins = [
        [item(f"t{number}-{place}", question, answer) for place, (question, answer) in enumerate(group)]
        for number, group in enumerate(TWIN_SETS)
    ]
    splits = ids(split_items([*distinct(20), *(each for group in twins for each in group)], "1:1:1", seed=seed))
    for group in twins:
        assert len({split for split in SPLITS for each in group if each["id"] in splits[split]}) == 1


@example(sizes=[1] * 6, ratio=(5, 5, 1), seed=0)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=6, max_size=20),
    ratio=st.tuples(*[st.integers(1, 7)] * 3),
    seed=st.integers(0, 9),
)
def test_deal_loses_nothing_and_splits_no_group(sizes, ratio, seed):
    """Every item is dealt once, exact repeats stay together, and no split is empty."""
    pool = distinct(len(sizes))
    items = [
        each | {"id": f"{each['id']}#{copy}"} for size, each in zip(sizes, pool, strict=True) for copy in range(size)
    ]
    dealt = ids(split_items(items, ":".join(map(str, ratio)), seed=seed))
    assert sorted(name for each in dealt.values() for name in each) == sorted(each["id"] for each in items)
    assert all(dealt.values())
    homes = {}
    for split, names in dealt.items():
        for name in names:
            assert homes.setdefault(name.partition("#")[0], split) == split


def test_questions_of_one_form_are_not_duplicates():
    """Questions of a template with other answers or figures can be dealt freely."""
    capitals = [item(f"c{n}", f"What is the capital of country {n}?", f"city {n}") for n in range(15)]
    sums = [item(f"s{n}", f"Is invoice {n} paid? Say yes or no.", "yes") for n in range(15)]
    dealt = split_items([*capitals, *sums], "1:1:1")
    assert [len(dealt[split]) for split in SPLITS] == [10, 10, 10]


def test_group_too_large_for_the_ratio_is_reported():
    """The message says why it cannot be dealt, and what to do."""
    with pytest.raises(UsageError, match=r"leave the split '\w+' empty: near-duplicates stay together, and 20"):
        split_items([item(f"i{n}", "Fix the parser tests") for n in range(20)], "1:1:1")


def test_duplicate_across_given_splits_leaves_the_less_sealed_one(tmp_path):
    """A folder's splits are kept, without items that a more sealed split asks too; a note says so."""
    rows = {
        "train": [item("a", "Describe the anvil"), item("b", "Fix the parser tests please")],
        "val": [item("c", "Describe the birch"), item("d", "fix the parser tests")],
        "test": [item("e", "Please fix the parser tests.")],
    }
    for split, items in rows.items():
        (tmp_path / f"{split}.json").write_text(json.dumps(items))
    splits = load_splits(tmp_path)
    assert ids(splits) == {"train": {"a"}, "val": {"c"}, "test": {"e"}}
    assert splits.notes == (
        "1 item of train left out: test asks the same",
        "1 item of val left out: test asks the same",
    )


BAD = {
    "empty split": ({"train": [item("a")], "val": [], "test": [item("b")]}, "the split 'val' is empty"),
    "no id": ({"train": [item("a"), {"question": "?"}]}, r"train\[1\] has no id"),
    "empty id": ({"train": [item("")]}, r"train\[0\] has no id"),
    "id that is none": ({"train": [{"id": ["a"]}]}, r"train\[0\] has the id \['a'\]"),
    "duplicate id": ({"train": [item("a"), item("a")]}, r"the id 'a' occurs twice: train\[0\] and train\[1\]"),
    "duplicate across": ({"train": [item("a")], "test": [item("a")]}, r"'a' occurs twice: train\[0\] and test\[0\]"),
    "same id, other type": ({"train": [{"id": 1}], "val": [{"id": "1"}]}, r"'1' occurs twice"),
    "not an object": ({"train": ["a"]}, r"train\[0\] must be an object"),
}


@pytest.mark.parametrize(("splits", "says"), BAD.values(), ids=BAD)
def test_bad_items_are_refused_by_name(splits, says):
    """One line names the split, the place and the id."""
    with pytest.raises(UsageError, match=says):
        check_splits(splits)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ({"val": [{}]}, r"val\[0\] has no id"),
        ({"test": [{"id": None}]}, r"test\[0\] has no id"),
        ({"train": [{"id": " "}]}, r"train\[0\] has the id ' '"),
        ({"val": [{"id": "a"}, {"id": "a"}]}, r"'a' occurs twice: val\[0\] and val\[1\]"),
        ({"train": [{"id": 1}], "val": [{"id": "1"}]}, r"'1' occurs twice: train\[0\] and val\[0\]"),
    ],
    ids=["missing", "None", "blank", "doubled", "doubled-across"],
)
def test_ids_of_a_folder_are_checked_before_anything_is_left_out(tmp_path, rows, says):
    """Whatever the items ask: that one without an id asks the same as another is not what is wrong with it."""
    for split in ("train", "val", "test"):
        found = [
            {"question": "What is asked everywhere?", "answers": "x", **row} for row in rows.get(split, [{"id": split}])
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(json.dumps, found)))
    with pytest.raises(UsageError, match=says):
        load_splits(tmp_path)


def test_items_of_a_dealt_file_are_checked_before_they_are_dealt(tmp_path):
    """The place is that in the file, where the person will mend it."""
    path = tmp_path / "x.json"
    path.write_text(json.dumps([*distinct(5), {"question": "Who?"}]))
    with pytest.raises(UsageError, match=r"x\.json: item 6 has no id"):
        load_splits(path, ratio="1:1:1")


def test_split_by_another_name_is_refused():
    """With the nearest name."""
    with pytest.raises(UsageError, match=r"no split 'tset'.*did you mean 'test'"):
        Splits()["tset"]


@pytest.mark.parametrize("sign", ["\u2028", "\u0085", "\x0b", "\x1e"])
def test_only_a_line_feed_ends_a_line(tmp_path, sign):
    """Signs that some call line ends stand in texts as they are."""
    rows = [{"id": "a", "question": f"one{sign}two"}, {"id": "b"}]
    path = tmp_path / "x.jsonl"
    path.write_bytes("\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows).encode())
    if sign > "\x1f":
        assert read_items(path) == rows
    else:  # JSON itself writes these two out
        assert [each["id"] for each in read_items(path)] == ["a", "b"]


def test_cell_may_be_a_whole_document(tmp_path):
    """Of any length, and the limit of the process is as it was."""
    before = csv.field_size_limit()
    (tmp_path / "x.csv").write_text("id,question\n1," + "x" * 200_000)
    assert len(read_items(tmp_path / "x.csv")[0]["question"]) == 200_000
    assert csv.field_size_limit() == before


@pytest.mark.parametrize("limit", [-1, True, 1.5, "3"])
def test_limit_that_is_none_is_refused(tmp_path, limit):
    """It would leave out items that nobody meant."""
    (tmp_path / "x.json").write_text(json.dumps(distinct(9)))
    with pytest.raises(UsageError, match="limit is"):
        load_splits(tmp_path / "x.json", ratio="1:1:1", limit=limit)


def rows_file(folder, splits):
    asked = ["Who painted Guernica?", "How deep is Lake Baikal?", "Which metal melts first?", "What do otters eat?"]
    rows = [
        item(f"r{number}", question, answer=f"answer {number}") | ({"split": name} if name else {})
        for number, (question, name) in enumerate(zip(asked, splits, strict=False))
    ]
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_rows_that_name_their_split_stay_in_it(tmp_path):
    """Without a ratio, and before one."""
    path = rows_file(tmp_path, ["test", "train", "validation", "train"])
    for ratio in ("", "1:1:1"):
        splits = load_splits(path, ratio=ratio)
        assert [len(splits[split]) for split in SPLITS] == [2, 1, 1]
        assert bool(splits.notes) == bool(ratio)


@pytest.mark.parametrize(
    ("names", "says"),
    [(["train", "val", ""], "2 of 3 items have a 'split'"), (["train", "val", "tets"], "item 3 has the split 'tets'")],
)
def test_rows_that_name_no_split_or_another(tmp_path, names, says):
    """They are refused in one line, ratio or not."""
    with pytest.raises(UsageError, match=says):
        load_splits(rows_file(tmp_path, names), ratio="1:1:1")


def test_id_with_blanks_around_it_is_refused():
    """Elsewhere it would be read without them."""
    with pytest.raises(UsageError, match="the id ' a' begins or ends with a blank"):
        check_splits({"train": [{"id": " a"}]})
