"""The bar at the foot: every key with what it does, to be read and to be clicked.

Must not know: what the actions do.
"""

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from tracer.texts import message

# Key, action, name of its text; in the order of the bar.
KEYS = (
    ("]", "hop(True)", "key_next"),
    ("[", "hop(False)", "key_back"),
    ("n", "mark(True)", "key_mark"),
    ("b", "beside", "key_beside"),
    ("/", "search", "key_search"),
    ("y", "cite", "key_cite"),
    ("u", "undo", "key_undo"),
    ("t", "tree", "key_tree"),
    ("l", "language", "key_language"),
    ("?", "keys", "key_keys"),
    ("q", "quit", "key_quit"),
)
_NAMES = {"]": "right_square_bracket", "[": "left_square_bracket", "/": "slash", "?": "question_mark"}
# Further keys, as they are shown, and the names of their texts.
_MORE = (
    ("N", "more_mark"),
    ("↑ ↓ ← →", "more_arrows"),
    ("PgUp PgDn Home End", "more_pages"),
    ("Tab", "more_tab"),
    ("Enter", "more_enter"),
    ("Ctrl-C", "more_interrupt"),
)


def bindings() -> list[BindingType]:
    """Return the keys of the bar, and N, which is n backwards."""
    shown = [Binding(_NAMES.get(key, key), action, show=False) for key, action, _ in KEYS]
    return [*shown, Binding("N", "mark(False)", show=False)]


def every_key(language: str) -> str:
    """Return a line for every key there is, with what it does."""
    rows = [(key, f"{name}_long") for key, _, name in KEYS] + list(_MORE)
    return "\n".join(f"{key}  {message(f'browse.{name}').text(language)}" for key, name in rows)


class KeysBar(Static):
    """One line."""

    def speak(self, language: str) -> None:
        """Write the line in ``language``."""
        parts: list[Content] = []
        for key, action, name in KEYS:
            pressed = f"[@click=app.{action}][bold #ffffff on #303a4a]$key[/] $name[/] "
            parts.append(Content.from_markup(pressed, key=key, name=message(f"browse.{name}").text(language)))
        self.update(Content.assemble(*parts))
