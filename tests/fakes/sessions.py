"""Makes sessions from a few words."""

from __future__ import annotations

from skillopt_sleep.model.session import Feedback, PromptKind, Session, Turn

FEEDBACK = {"no": Feedback.CORRECTION, "ok": Feedback.APPROVAL}


def turn(prompt, final="", said="", *, kind=PromptKind.TYPED, at="", **more):
    """Make a turn; ``said`` is "no" for a correction, "ok" for an approval."""
    feedback = FEEDBACK.get(said, Feedback.NEITHER)
    name = f"{prompt[:20]}-{len(prompt)}"
    return Turn(id=name, prompt=prompt, final=final, feedback=feedback, kind=kind, at=at, **more)


def session(name, *turns, day="2026-03-02", cwd="/home/ada/rockets", source="claude"):
    """Make a session; turns may be given as tuples, and get the day of the session."""
    made = [
        each if isinstance(each, Turn) else turn(*each, at=f"{day}T10:{number:02}:00Z")
        for number, each in enumerate(turns)
    ]
    return Session(
        source=source,
        path=f"/sessions/{name}.jsonl",
        session_id=name,
        cwd=cwd,
        started_at=f"{day}T10:00:00Z" if day else "",
        turns=tuple(made),
    )
