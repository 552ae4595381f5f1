"""Data for training: read from files, dealt to train, val and test so that no near-duplicate straddles a split.

Everything that can be wrong with the data is said here, in one line each, before a call is made.
"""

from __future__ import annotations

import csv
import io
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from skillopt_sleep.errors import UsageError
from skillopt_sleep.model.text import did_you_mean, excerpt
from skillopt_sleep.train.ports import Item
from skillopt_sleep.train.twins import group_numbers

SPLITS = ("train", "val", "test")
"""From the one that teaches to the most sealed."""

SPELLINGS = {"train": ("train",), "val": ("val", "valid", "validation", "dev"), "test": ("test",)}
SUFFIXES = (".json", ".jsonl", ".ndjson", ".csv", ".tsv")
ITEMS = ("items", "data", "examples", "tasks", "rows")
"""Where an object keeps its list of items."""


class Splits(Struct, frozen=True, kw_only=True):
    """The items of each split; ``notes`` say what was left out of the data, and why.

    ``absent``: by split, why there is nothing of it, which is no mistake until it is needed.
    """

    train: tuple[Item, ...] = ()
    val: tuple[Item, ...] = ()
    test: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()
    absent: dict[str, str] = {}

    def needed(self, split: str) -> tuple[Item, ...]:
        """The items of a split. Raises ``UsageError`` for one that is none, or of which there is nothing."""
        items = self[split]
        if split in self.absent:
            raise UsageError(self.absent[split])
        return items

    def __getitem__(self, split: str) -> tuple[Item, ...]:
        """The items of a split by name. Raises ``UsageError`` for a name that is none."""
        if split not in SPLITS:
            raise UsageError(f"there is no split {split!r}, only {', '.join(SPLITS)}{did_you_mean(split, SPLITS)}")
        items: tuple[Item, ...] = getattr(self, split)
        return items


def load_splits(path: str | Path, *, ratio: str = "", seed: int = 42, limit: int = 0) -> Splits:
    """The splits of a folder with train/, val/ and test/ (or train.jsonl, …), or of one file dealt by ``ratio``.

    Rows of one file that all have a ``split`` of their own stay in it. ``ratio`` is train:val:test, as in ``2:1:7``;
    ``limit`` keeps the first items of each split (0: all). Raises
    ``UsageError`` naming the file and line.
    """
    path = Path(path)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise UsageError(f"limit is {limit!r:.40}, must be a whole number, 0 for all items")
    if not path.exists():
        raise UsageError(f"there is no data at {path}: name a folder with train/, val/ and test/, or a file")
    whole = path.is_dir() and not ratio
    splits = _of_folder(path) if whole else _of_file(_only_file(path), ratio, seed)
    return replace(splits, **{split: splits[split][:limit] for split in SPLITS}) if limit else splits


def read_items(path: str | Path) -> list[Item]:
    """The items of one JSON, JSONL or CSV file, by its suffix. Raises ``UsageError`` naming the line."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise UsageError(f"cannot read the data file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8, at byte {error.start}; save it as UTF-8") from None
    suffix = path.suffix.lower()
    if suffix == ".json":
        return _from_json(text, path)
    if suffix in {".jsonl", ".ndjson"}:
        return [_row(_decoded(line, f"{path}:{n}", one_line=True), f"{path}:{n}") for n, line in _lines(text)]
    if suffix in {".csv", ".tsv"}:
        return list(_from_csv(text, path, delimiter="\t" if suffix == ".tsv" else ","))
    raise UsageError(f"{path}: data files end in {', '.join(SUFFIXES)}, not {suffix!r}")


def split_items(items: Sequence[Item], ratio: str, *, seed: int = 42) -> Splits:
    """Deal items to the splits by ratio and seed; whole groups of near-duplicates, so that none straddles.

    Raises ``UsageError`` when a split would stay empty.
    """
    parts = parse_ratio(ratio)
    groups: dict[int, list[Item]] = defaultdict(list)
    for number, item in zip(group_numbers(items), items, strict=True):
        groups[number].append(item)
    order = list(groups.values())
    random.Random(seed).shuffle(order)  # noqa: S311  a seeded deal, not a secret
    wanted = _shares(len(items), parts)
    dealt: dict[str, list[Item]] = {split: [] for split in SPLITS}
    for place, group in enumerate(sorted(order, key=len, reverse=True)):
        empty = [split for split in SPLITS if not dealt[split]]
        open_ = empty if len(order) - place <= len(empty) else SPLITS
        dealt[max(open_, key=lambda split: wanted[split] - len(dealt[split]))] += group
    for split in SPLITS:
        if not dealt[split]:
            raise UsageError(_why_empty(split, len(items), ratio, max(map(len, order), default=0)))
    for each in dealt.values():
        random.Random(seed).shuffle(each)  # noqa: S311  as above
    return _splits(dealt)


def without_straddlers(splits: Splits) -> Splits:
    """The splits as they were given, less the items that ask the same as one of a more sealed split.

    Each such item is left out of the less sealed one: a twin of a test item must neither teach nor decide.
    """
    placed = [(split, item) for split in SPLITS for item in splits[split]]
    numbers = group_numbers([item for _, item in placed])
    sealed: dict[int, int] = {}
    for number, (split, _) in zip(numbers, placed, strict=True):
        sealed[number] = max(sealed.get(number, 0), SPLITS.index(split))
    kept: dict[str, list[Item]] = {split: [] for split in SPLITS}
    left: Counter[tuple[str, str]] = Counter()
    for number, (split, item) in zip(numbers, placed, strict=True):
        home = SPLITS[sealed[number]]
        if home == split:
            kept[split].append(item)
        else:
            left[split, home] += 1
    notes = tuple(
        f"{count} {'item' if count == 1 else 'items'} of {split} left out: {home} asks the same"
        for (split, home), count in left.items()
    )
    for split in SPLITS:
        if splits[split] and not kept[split]:
            raise UsageError(f"every item of {split} asks the same as one of a more sealed split; {split} needs others")
    return replace(splits, **{split: tuple(kept[split]) for split in SPLITS}, notes=(*splits.notes, *notes))


def check_splits(splits: Mapping[str, Sequence[Item]]) -> None:
    """Raise ``UsageError`` when a split is empty, or an item has no id, or an id occurs twice, in whatever split."""
    for split, items in splits.items():
        if not items:
            raise UsageError(f"the split {split!r} is empty: it needs at least one item")
    check_ids([item for items in splits.values() for item in items], _places(splits))


def check_ids(items: Sequence[Item], where: str | Sequence[str]) -> None:
    """Raise ``UsageError`` for an item that is no object or has no id, or an id that occurs twice.

    ``where`` names the data, or the place of each item.
    """
    seen: dict[str, str] = {}
    for index, item in enumerate(items):
        place = f"{where}: item {index + 1}" if isinstance(where, str) else where[index]
        if not isinstance(item, dict):
            raise UsageError(f"{place} is no object with fields, but {excerpt(repr(item), 60)}")
        name = item.get("id")
        if str(name) != str(name).strip() and str(name).strip():
            raise UsageError(f"{place} has the id {excerpt(repr(name), 40)}, with blanks around it; ids have none")
        if name is None or isinstance(name, bool | float | dict | list) or not str(name).strip():
            told = "has no id" if name in (None, "") else f"has the id {excerpt(repr(name), 40)}"
            raise UsageError(f"{place} {told}; every item needs an 'id' of its own, a text or a whole number")
        if str(name) in seen:
            raise UsageError(f"the id {str(name)!r} occurs twice: {seen[str(name)]} and {place}; ids must be unique")
        seen[str(name)] = place


def notes_of(env: object) -> tuple[str, ...]:
    """What an environment says of its data: what was left out, or stands in two splits."""
    return tuple(map(str, getattr(env, "notes", ()) or ()))


def parse_ratio(ratio: str) -> tuple[int, int, int]:
    """``train:val:test`` as three whole numbers of at least 1. Raises ``UsageError``."""
    parts = [part.strip() for part in str(ratio).split(":")]
    if len(parts) != len(SPLITS) or not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise UsageError(f"ratio {ratio!r} is no train:val:test of whole numbers above 0, such as '2:1:7'")
    return int(parts[0]), int(parts[1]), int(parts[2])


def _splits(items: Mapping[str, Sequence[Item]]) -> Splits:
    train, val, test = (tuple(items.get(split, ())) for split in SPLITS)
    return Splits(train=train, val=val, test=test)


def _shares(total: int, parts: tuple[int, int, int]) -> dict[str, int]:
    """How many items each split is due: the rounded-down shares, and the rest to the largest remainders."""
    exact = {split: total * part / sum(parts) for split, part in zip(SPLITS, parts, strict=True)}
    due = {split: math.floor(share) for split, share in exact.items()}
    rest = sorted(SPLITS, key=lambda split: due[split] - exact[split])
    for split in rest[: total - sum(due.values())]:
        due[split] += 1
    return due


def _why_empty(split: str, total: int, ratio: str, largest: int) -> str:
    if largest > 1:
        return (
            f"{total} items at {ratio} leave the split {split!r} empty: near-duplicates stay together, and {largest}"
            " of them are one group; name a folder with train/, val/ and test/ instead, or add items"
        )
    return f"{total} items at {ratio} leave the split {split!r} empty; add items"


def _places(splits: Mapping[str, Sequence[Item]]) -> list[str]:
    return [f"{split}[{index}]" for split, items in splits.items() for index in range(len(items))]


def _of_folder(folder: Path) -> Splits:
    """The splits of a folder, those there are, less what straddles them."""
    found = {split: _items_of(folder, split) for split in SPLITS}
    absent = {split: why for split, why in found.items() if isinstance(why, str)}
    if len(absent) == len(SPLITS):
        raise UsageError(next(iter(absent.values())))
    given = {split: items for split, items in found.items() if not isinstance(items, str)}
    check_splits(given)
    return without_straddlers(replace(_splits(given), absent=absent))


def _of_file(path: Path, ratio: str, seed: int) -> Splits:
    """The splits of one file: those its rows name, else dealt by ratio."""
    items = read_items(path)
    named = [number for number, item in enumerate(items, start=1) if item.get("split") not in (None, "")]
    if not named and not ratio:
        raise UsageError(f"{path} is one file: say how to deal it, as in ratio = '2:1:7', or name a folder")
    if not items:
        raise UsageError(f"{path} holds no items; a split needs at least one")
    check_ids(items, str(path))
    if not named:
        return split_items(items, ratio, seed=seed)
    if len(named) < len(items):
        raise UsageError(f"{path}: {len(named)} of {len(items)} items have a 'split': it needs one in all, or in none")
    homes = {name: split for split, spellings in SPELLINGS.items() for name in spellings}
    found: dict[str, list[Item]] = {split: [] for split in SPLITS}
    for number, item in enumerate(items, start=1):
        home = homes.get(str(item["split"]).strip().lower())
        if home is None:
            raise UsageError(
                f"{path}: item {number} has the split {excerpt(repr(item['split']), 40)}, none of {', '.join(homes)}"
            )
        found[home].append(item)
    absent = {split: f"the split {split!r} is empty: no row of {path} names it" for split in SPLITS if not found[split]}
    notes = (f"ratio {ratio!r} is not used: every row names its split",) if ratio else ()
    return without_straddlers(replace(_splits(found), absent=absent, notes=notes))


def _items_of(folder: Path, split: str) -> list[Item] | str:
    """The items of one split of a folder: all data files of its folder, or its one file; why there are none."""
    spellings = SPELLINGS[split]
    places = [folder / name for name in spellings if (folder / name).is_dir()]
    places += [folder / f"{name}{suffix}" for name in spellings for suffix in SUFFIXES]
    found = [place for place in places if place.exists()]
    needs = f"it needs one of them for each of {', '.join(SPLITS)}, or a ratio"
    if not found:
        return f"{folder} has no {split}/ and no {split}{SUFFIXES[1]}: {needs}"
    if len(found) > 1:
        raise UsageError(f"{folder} has both {found[0].name} and {found[1].name}: {needs}")
    files = [found[0]] if found[0].is_file() else _data_files(found[0])
    if not files:
        return f"the split {split!r} is empty: {found[0]} holds no file that ends in {', '.join(SUFFIXES)}"
    items = [item for path in files for item in read_items(path)]
    return items or f"the split {split!r} is empty: {found[0]} holds no items"


def _only_file(path: Path) -> Path:
    if not path.is_dir():
        return path
    files = _data_files(path)
    if len(files) != 1:
        raise UsageError(f"{path} holds {len(files)} data files; a ratio deals exactly one, so name it")
    return files[0]


def _data_files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.suffix.lower() in SUFFIXES and each.is_file())


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not empty, with their numbers; only a line feed ends one, other signs are of the text."""
    return ((number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip())


def _decoded(text: str, where: str, *, one_line: bool = False) -> object:
    try:
        value: object = json.loads(text)
    except json.JSONDecodeError as error:
        place = f"column {error.colno}" if one_line else f"line {error.lineno}, column {error.colno}"
        raise UsageError(f"{where}: no JSON: {error.msg} ({place})") from None
    except RecursionError:
        raise UsageError(f"{where}: nested too deeply") from None
    return value


def _row(value: object, where: str) -> Item:
    if not isinstance(value, dict):
        raise UsageError(f"{where}: an item is an object with fields, not {excerpt(repr(value), 60)}")
    return value


def _from_json(text: str, path: Path) -> list[Item]:
    """A list of items, an object that keeps one, or an object of items by id."""
    value = _decoded(text, str(path))
    if isinstance(value, dict):
        kept = next((value[name] for name in ITEMS if isinstance(value.get(name), list)), None)
        if kept is None and value and all(isinstance(each, dict) for each in value.values()):
            kept = [{"id": key} | each for key, each in value.items()]
        value = kept
    if not isinstance(value, list):
        raise UsageError(f"{path}: a list of items is wanted, or an object with one under {', '.join(ITEMS)}")
    return [_row(each, f"{path}: item {number}") for number, each in enumerate(value, start=1)]


def _from_csv(text: str, path: Path, *, delimiter: str) -> Iterable[Item]:
    """Rows below a line of names; a cell that is a JSON list or object is read as one."""
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    before = csv.field_size_limit(max(len(text), 1))  # of the whole process, and far too small for a document
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        if len(set(names)) != len(names) or not all(names):
            raise UsageError(f"{path}:1: the first line names the columns, each once; it has {', '.join(names)!r}")
        if len(names) == 1:
            raise UsageError(
                f"{path}:1: the first line names one column, {names[0]!r}; {delimiter!r} separates columns"
            )
        for row in reader:
            if None in row or None in row.values():
                raise UsageError(
                    f"{path}:{reader.line_num}: this row has not {len(names)} cells, as the first line has"
                )
            yield {name: _cell(value) for name, value in zip(names, row.values(), strict=True)}
    except csv.Error as error:
        raise UsageError(f"{path}:{reader.line_num}: no CSV: {error}") from None
    finally:
        csv.field_size_limit(before)


def _cell(text: str) -> object:
    if text.lstrip()[:1] in {"[", "{"}:
        try:
            return json.loads(text)
        except ValueError:
            return text
    return text
