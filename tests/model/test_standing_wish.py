"""Which sentences ask for something for good."""

from __future__ import annotations

import pytest

from skillopt_sleep.model.lexicon import is_standing_wish

WISHES = """
From now on, write dates as 2026-03-14.
Always run the formatter before you commit.
No, never commit with --no-verify!
We always use British spelling in docs.
You should always ask before deleting files.
In the future, put tests next to the code.
I always want a changelog entry.
Can you always use single quotes please?
Ab jetzt bitte Commits auf Deutsch.
Bitte immer erst die Tests laufen lassen.
Désormais, écris les messages en français.
Ne modifie jamais les fichiers générés.
Usa siempre comillas simples.
A partir de ahora los commits en español.
Usa sempre aspas simples.
D'ora in poi scrivi in italiano.
Gebruik altijd spaties.
Zawsze uruchamiaj testy.
Впредь не трогай конфиг.
从现在起提交信息用中文。
今後はテストを先に書いてください。
항상 테스트를 돌려
Her zaman testleri kullan.
Alltid kör testerna först.
Selalu jalankan tes.
""".strip().splitlines()

OTHERS = """
Fix the login page.
It always fails on the second run.
you never ran the tests
Why do you always use tabs?
never mind
the button is always red
I never said that
es ist immer noch kaputt
ça ne marche toujours pas
nie rób tego teraz
Schreib den Bericht für Mai.
как всегда всё сломано
你总是忘记
nunca funciona
no, use single quotes
""".strip().splitlines()


@pytest.mark.parametrize("sentence", WISHES)
def test_standing_wish_is_recognized(sentence):
    """In many languages, as an order, a wish or a polite question."""
    assert is_standing_wish(sentence)


@pytest.mark.parametrize("sentence", OTHERS)
def test_complaint_question_or_single_order_is_no_standing_wish(sentence):
    """What tells, asks or blames asks for nothing for good."""
    assert not is_standing_wish(sentence)
