# ruff: noqa: INP001  a script is not part of a package
"""Writes the data of the worked example in docs/training.md: titles for the messages to a bicycle shop.

The shop has a house form for the title of each kind of message, and nobody told the agent: this is what a skill can
learn. The script also writes the world of the simulated agent. The same script always writes the same bytes.

    python scripts/make_training_example.py [FOLDER]
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from skillopt_sleep.backends.simulated_world import HarmfulRule, Rule, World, WorldTask, write_world

FOLDER = Path(__file__).parents[1] / "docs" / "examples" / "tickets"
SPLITS = {"train": 4, "val": 3, "test": 5}
"""Messages of each kind in a split."""

PARTS = (
    "chain", "saddle", "front wheel", "brake cable", "pedal", "bell", "rear light", "pannier", "tyre", "handlebar",
    "mudguard", "dynamo",
)  # fmt: skip
KINDS = {
    "return": (
        "Title a message about sending something back: RET, the order number, the part.",
        ("sending something back", "ret"),
        "I want to send order {number} back, the {part} does not fit.",
        "RET {number} {part}",
        "Customer wants to send back the {part} of order {number}",
    ),
    "delivery": (
        "Title a message about a parcel that has not come: SHIP, the order number, LATE.",
        ("a parcel that has not come", "late"),
        "Order {number} with my {part} should have been here on Monday. Where is it?",
        "SHIP {number} LATE",
        "Question about the delivery of order {number}",
    ),
    "warranty": (
        "Title a message about something that broke: WAR, the part in capitals, the order number in brackets.",
        ("something that broke", "war"),
        "The {part} from order {number} snapped after a week, that cannot be right.",
        "WAR {PART} ({number})",
        "Broken {part}, order {number}",
    ),
    "invoice": (
        "Title a message about a bill: BILL, the order number, the word copy.",
        ("a bill", "copy"),
        "Please mail me the invoice for the {part} again, it was order {number}.",
        "BILL {number} copy",
        "Invoice request for order {number}",
    ),
    "workshop": (
        "Title a message that asks for the workshop: SLOT, the part, no number.",
        ("the workshop", "slot"),
        "Can you fit the {part} for me next week? I bought it as order {number}.",
        "SLOT {part}",
        "Appointment: fitting of {part}, order {number}",
    ),
}
"""By kind: the house rule, the words that state it, and the forms of message, title and bad title."""

USELESS = (
    "Be friendly in every title.",
    "Read the message twice before you write.",
    "Titles are read by busy people.",
    "Write in plain English.",
)
HARMFUL = (
    ("Put the customer first: begin each title with Customer.", ("return", "invoice")),
    ("Leave order numbers out of titles, they are in the mail anyway.", ("delivery", "warranty")),
)


def main(folder: Path) -> None:
    """Write world.json and the three splits."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)  # noqa: S311  the same data every time
    numbers = iter(rng.sample(range(1_000, 9_999), len(KINDS) * len(PARTS)))
    rows: dict[str, list[dict[str, object]]] = {split: [] for split in SPLITS}
    tasks = []
    for kind, (_, _, ask, good, bad) in KINDS.items():
        homes = [split for split, count in SPLITS.items() for _ in range(count)]
        for part, split in zip(PARTS, rng.sample(homes, len(homes)), strict=True):
            words = {"number": next(numbers), "part": part, "PART": part.upper()}
            message, title = ask.format(**words), good.format(**words)
            name = f"{kind}-{words['number']}"
            rows[split].append({"id": name, "question": message, "answers": [title], "task_type": kind})
            tasks.append(WorldTask(id=name, asks=(message,), rules=(kind,), good=title, bad=bad.format(**words)))
    for split, items in rows.items():
        rng.shuffle(items)
        text = "".join(json.dumps(item) + "\n" for item in items)
        (folder / f"{split}.jsonl").write_text(text, encoding="utf-8")
    world = World(
        rules=tuple(
            Rule(id=kind, text=rule, states=(states,), complaints=(f"That is no title for a {kind} message.",))
            for kind, (rule, states, *_) in KINDS.items()
        ),
        tasks=tuple(tasks),
        useless=USELESS,
        harmful=tuple(HarmfulRule(text=text, breaks=breaks) for text, breaks in HARMFUL),
    )
    (folder / "world.json").write_bytes(write_world(world))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
